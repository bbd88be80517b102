"""What a simulation measures."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Attempt, Job
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.resources import CPUS, GPUS
from schedulearn.core.policies.notes import Note
from schedulearn.core.policies.sharing import Shares
from schedulearn.core.policies.stages import Moves, Policy
from schedulearn.lab.sim import fairness
from schedulearn.lab.sim.averages import mean, percentile
from schedulearn.lab.sim.fairness import Demand, Treated, fair_ends
from schedulearn.lab.sim.model import JobModel
from schedulearn.lab.traces.types import TraceJob, Workload

_MOST_SAMPLES = 4000  # of queue length and use over time


class JobResult(NamedTuple):
    """What became of one job."""

    serial: int  # its place in the trace, from 1
    arrival: float
    started: float
    ended: float
    gpus: int
    preemptions: int
    resizes: int
    migrations: int
    deadline: float | None
    lost_work: float
    used: float  # slot-seconds
    migration_seconds: float = 0.0  # in which it was on the move, or made no progress yet where it went

    @property
    def jct(self) -> float:
        return self.ended - self.arrival

    @property
    def missed(self) -> bool:
        return self.deadline is not None and self.ended > self.deadline


@dataclass(frozen=True, slots=True)
class Segment:
    """A job on a node for a while."""

    serial: int
    node: str
    workers: int
    start: float
    end: float


class ShareSample(NamedTuple):
    """What a job uses of a machine from this moment on."""

    at: float
    serial: int
    node: str
    cores: float  # in use; 0: it has left
    limit: float  # cores; inf: none


class Written(NamedTuple):
    """A note of a stage, with its time."""

    at: float
    note: Note


class GrowthSample(NamedTuple):
    """A job's growth efficiency, as a share stage measured it at this moment."""

    at: float
    serial: int
    node: str
    growth: float


class ChangeSample(NamedTuple):
    """By how much of its range a job's metric changed, as a migrate stage measured it at this moment."""

    at: float
    serial: int
    change: float


@dataclass(frozen=True, slots=True)
class Result:
    """One policy on one workload."""

    policy: str
    stages: dict[str, str]
    params: dict[str, Any]
    submitted: int
    jobs: Sequence[JobResult]  # completed ones, in the order of their end
    impossible: Sequence[int]  # serials of jobs larger than the cluster
    unfinished: int  # still waiting when nothing could happen any more
    slots: float  # GPUs; cores where nobody asks for a GPU, or there is none
    unit: str  # GPUs | cores: what they are
    busy: float  # slot-seconds in use
    first_arrival: float
    decisions: int
    node_failures: int
    samples: Sequence[tuple[float, int, float]]  # (time, queue length, slots in use)
    segments: Sequence[Segment]
    demands: Sequence[Demand] = ()  # of all jobs of the trace, in its order
    limit_changes: int = 0  # by the share stage
    notes: Sequence[Written] = ()  # of the stages; kept with a timeline
    shares: Sequence[ShareSample] = ()  # likewise
    growth: Sequence[GrowthSample] = ()  # likewise
    metric_changes: Sequence[ChangeSample] = ()  # likewise
    wall_seconds: float = 0.0
    estimates: dict[str, Any] = field(default_factory=dict)  # where durations came from, and how far off they were

    def summary(self) -> dict[str, Any]:
        """The figures of `simulate --json`."""
        jcts = sorted(job.jct for job in self.jobs)
        makespan = max((job.ended for job in self.jobs), default=self.first_arrival) - self.first_arrival
        with_deadline = [job for job in self.jobs if job.deadline is not None]
        return {
            "policy": self.policy,
            "stages": self.stages,
            "params": self.params,
            "jobs": self.submitted,
            "completed": len(self.jobs),
            "impossible": len(self.impossible),
            "unfinished": self.unfinished,
            "avg_jct": mean(jcts),
            "p50_jct": percentile(jcts, 50),
            "p95_jct": percentile(jcts, 95),
            "p99_jct": percentile(jcts, 99),
            "avg_wait": mean([job.started - job.arrival for job in self.jobs]),
            "makespan": makespan,
            "used_of": self.unit,
            "utilization": self.busy / (self.slots * makespan) if makespan > 0 and self.slots else 0.0,
            "useful": self._useful() / (self.slots * makespan) if makespan > 0 and self.slots else 0.0,
            "preemptions": sum(job.preemptions for job in self.jobs),
            "migrations": sum(job.migrations for job in self.jobs),
            "migration_seconds": sum(job.migration_seconds for job in self.jobs),
            "resizes": sum(job.resizes for job in self.jobs),
            "limit_changes": self.limit_changes,
            "deadlines": len(with_deadline),
            "missed_deadlines": sum(job.missed for job in with_deadline),
            "lost_work": sum(job.lost_work for job in self.jobs),
            "node_failures": self.node_failures,
            "decisions": self.decisions,
            **self._fairness(),
            "wall_seconds": self.wall_seconds,
            "estimates": self.estimates,
        }

    def _useful(self) -> float:
        """Slot-seconds, where a second worker that makes a job half as fast again counts as a half."""
        done = (self.demands[job.serial - 1] for job in self.jobs) if self.demands else ()
        return sum(demand.duration * demand.useful for demand in done)

    def treated(self) -> list[Treated]:
        """What became of each completed job, beside what equal shares would have made of it."""
        too_large = {*self.impossible}
        possible = [serial for serial in range(1, len(self.demands) + 1) if serial not in too_large]
        ends = fair_ends(tuple(self.demands[serial - 1] for serial in possible), self.slots)
        fair = dict(zip(possible, ends, strict=True))
        return [self._treated(job, fair[job.serial]) for job in self.jobs if job.serial in fair]

    def _treated(self, job: JobResult, fair_end: float) -> Treated:
        demand = self.demands[job.serial - 1]
        wait, fair = job.started - job.arrival, fair_end - demand.arrival
        return Treated(job.serial, demand.label, demand.user, wait, job.jct, demand.duration, fair, job.used)

    def _fairness(self) -> dict[str, Any]:
        known = {job.serial for job in self.jobs} | {*self.impossible}
        unfinished = [demand.label for serial, demand in enumerate(self.demands, 1) if serial not in known]
        return fairness.figures(self.treated(), unfinished)


class Recorder:
    """Told by the simulation what happens."""

    def __init__(self, workload: Workload, nodes: Sequence[Node], timeline: bool) -> None:
        self.completed = 0
        self._workload = workload
        gpus = sum(node.capacity[GPUS] for node in nodes)
        self.in_cores = not gpus or not any(job.gpus for job in workload.jobs)  # as they are used
        self._slots = sum(node.usable[CPUS] for node in nodes) if self.in_cores else gpus
        self._first = min((job.arrival for job in workload.jobs), default=0.0)
        self._jobs: list[JobResult] = []
        self._impossible: list[int] = []
        self._busy = 0.0
        self._decisions = 0
        self._failures = 0
        self._since: dict[JobId, float] = {}
        self._used: dict[JobId, float] = defaultdict(float)  # slot-seconds
        self._samples: list[tuple[float, int, float]] = []
        self._stride, self._noted = 1, 0
        self._timeline = timeline
        self._segments: list[Segment] = []
        self._limit_changes = 0
        self._notes: list[Written] = []
        self._shares: list[ShareSample] = []
        self._growth: list[GrowthSample] = []
        self._metric_changes: list[ChangeSample] = []

    def decided(self) -> None:
        self._decisions += 1

    def node_failed(self) -> None:
        self._failures += 1

    def impossible(self, serial: int) -> None:
        self._impossible.append(serial)

    def started(self, job: Job, now: float) -> None:
        self._since[job.id] = now

    def stopped(self, job: Job, attempt: Attempt, now: float, core_seconds: float = 0.0) -> None:
        """It has used so many seconds of cores since it was started."""
        since = self._since.pop(job.id, now)
        used = core_seconds
        if not self.in_cores:
            used = (now - since) * len(attempt.workers) * job.shape.slots if job.shape.gpus else 0.0
        self._busy += used
        self._used[job.id] += used
        if self._timeline and now > since:
            for node, workers in Counter(worker.node for worker in attempt.workers).items():
                self._segments.append(Segment(job.id, node, workers, since, now))

    def ended(self, job: Job, model: JobModel, now: float) -> None:
        self.completed += 1
        self._jobs.append(
            JobResult(
                serial=job.id,
                arrival=model.trace.arrival,
                started=job.started_at if job.started_at is not None else now,
                ended=now,
                gpus=model.trace.gpus,
                preemptions=job.preemptions,
                resizes=job.resizes,
                migrations=job.migrations,
                deadline=model.trace.deadline,
                lost_work=model.lost,
                used=self._used.pop(job.id, 0.0),
                migration_seconds=job.migration_seconds,
            )
        )

    def _demand(self, job: TraceJob) -> Demand:
        slots = job.cpus * (job.gpus or 1) if self.in_cores else job.gpus
        useful = job.speedup(job.gpus) if job.speedup and not self.in_cores else slots
        return Demand(job.arrival, job.duration, slots, useful, job.label, job.user)

    def shares(self, now: float, node: NodeName, job: JobId, cores: float, limit: float) -> None:
        """The job uses so many cores of this machine from now on."""
        if self._timeline:
            self._shares.append(ShareSample(now, job, node, cores, limit))

    def shared(self, now: float, node: NodeName, answer: Shares) -> None:
        """The share stage has looked at this machine."""
        self._limit_changes += len(answer.limits)
        self.written(now, answer.notes)
        if self._timeline:
            self._growth += [GrowthSample(now, job, node, growth) for job, growth in answer.growth.items()]

    def moved(self, now: float, answer: Moves) -> None:
        """The migrate stage has looked at who is where."""
        self.written(now, answer.notes)
        if self._timeline:
            self._metric_changes += [ChangeSample(now, job, change) for job, change in answer.growth.items()]

    def written(self, now: float, notes: Sequence[Note]) -> None:
        """A stage has written this down."""
        if self._timeline:
            self._notes += [Written(now, note) for note in notes]

    def note(self, now: float, queued: int, free: float) -> None:
        """Sampled ever more thinly, so that a long run takes no more memory than a short one."""
        self._noted += 1
        if self._noted % self._stride:
            return
        self._samples.append((now, queued, self._slots - free))
        if len(self._samples) >= _MOST_SAMPLES:
            self._samples = self._samples[::2]
            self._stride *= 2

    def result(self, policy: Policy, waiting: int) -> Result:
        return Result(
            policy=policy.preset,
            stages=policy.stages,
            params=policy.params,
            submitted=len(self._workload.jobs),
            jobs=self._jobs,
            impossible=self._impossible,
            unfinished=waiting,
            slots=self._slots,
            unit="cores" if self.in_cores else "GPUs",
            busy=self._busy,
            first_arrival=self._first,
            decisions=self._decisions,
            node_failures=self._failures,
            samples=self._samples,
            segments=self._segments,
            demands=[self._demand(job) for job in self._workload.jobs],
            limit_changes=self._limit_changes,
            notes=self._notes,
            shares=self._shares,
            growth=self._growth,
            metric_changes=self._metric_changes,
        )
