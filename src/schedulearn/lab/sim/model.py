"""A simulated job: how much work is left, and how fast it goes."""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job, Placement
from schedulearn.core.domain.learning import LearningCurve
from schedulearn.core.domain.spec import STOP, JobSpec, Launcher, Metric, Preemptible, WorkerResources, Workers
from schedulearn.core.domain.speedup import assumed_speedup
from schedulearn.core.domain.target import LATEST
from schedulearn.lab.sim.locality import Locality
from schedulearn.lab.traces.types import TraceJob

_GPU = WorkerResources(gpus=1, cpus_min=0.0, cpus_max=0.0)
_TINY = 1e-3  # of a core: what a job on a shared machine leases, so that sharing alone is the question


_NO_NETWORK = Locality()  # nothing is lost on several nodes


class JobModel:
    """Work is counted in seconds of running with the number of workers that the job wants."""

    __slots__ = (
        *("_left", "_log", "_owed", "_rate", "_since"),
        *("_locality", "batch", "good_enough", "job", "lost", "phase", "restart_cost", "saved"),
        *("spared", "speedup", "trace", "version"),
    )

    def __init__(
        self,
        job: Job,
        trace: TraceJob,
        restart_cost: float = 0.0,
        locality: Locality = _NO_NETWORK,
        left: float | None = None,  # of its work; None: all
    ) -> None:
        self.job, self.trace = job, trace
        self.restart_cost = restart_cost  # seconds in which it makes no progress when it is started again
        self.phase = 0  # of its training, if it adapts its batch size
        self.batch = trace.batch
        self.speedup = trace.speedup or assumed_speedup(job.shape.workers.max)
        self._locality = locality
        if trace.adaptive:
            self.speedup = trace.adaptive.speedup(0)
        self.version = 0  # tells an end that was planned before a change from the present one
        self.saved = trace.duration if left is None else left  # work left at the last checkpoint
        self.lost = 0.0  # work that had to be done again
        self._left, self._since, self._rate = self.saved, 0.0, 0.0
        self._owed = 0.0  # seconds of a restart that it was suspended in
        # How far it was, and how fast it went on, from when on; only of jobs that report something.
        self._log: list[tuple[float, float, float]] | None = None if trace.learning is None else []
        self.good_enough = _points_to_target(trace)  # points of its curve after which its target is reached
        self.spared = trace.duration - self.work  # what need not be done because it stops there

    @property
    def rate(self) -> float:
        """Work in a second with the workers that its job has where they are, if nobody slows it down there.

        Where it is suspended it would be as fast.
        """
        want, places = self.trace.gpus, self.job.placements or self.job.suspended_at
        if not want:
            return 1.0  # how fast it is is for the machine that it shares to say
        if not places:
            return 0.0  # its place was given away before it started: its stop follows at once
        there, workers = spread(places), len(places)
        if self.trace.adaptive:
            return self.trace.adaptive.rate(self.phase, there, self.batch)
        if self.trace.placed:
            return self.trace.placed(there) / self.speedup(want)
        rate = 1.0 if workers == want else self.speedup(workers) / self.speedup(want)
        if len(there) < 2:
            return rate
        nodes = {placement.node for placement in places}
        return rate * (1.0 - self._locality.loss(self.trace, self.speedup, workers, nodes))

    @property
    def locality_penalty(self) -> float:
        """The part of its speed that it loses on several nodes; measured: on two."""
        trace, workers = self.trace, self.job.workers or self.trace.gpus
        placed = trace.adaptive.placed if trace.adaptive else trace.placed
        if workers < 2:
            return 0.0
        if placed is None:
            return self._locality.loss(trace, self.speedup, workers)
        half = trace.gpus // 2
        return max(0.0, 1 - placed((half, trace.gpus - half)) / placed((trace.gpus,))) if half else 0.0

    def left(self, now: float) -> float:
        """Work left. While a restart is under way (`now` is before its end) nothing of it gets done."""
        if self._rate and now > self._since:
            return max(0.0, self._left - self._rate * (now - self._since))
        return self._left

    def done(self, now: float) -> float:
        """Work done."""
        return self.trace.duration - self.left(now)

    @property
    def runs(self) -> bool:
        return self._rate > 0

    @property
    def since(self) -> float:
        """From when on it goes as it does now: later than now while it is being started again."""
        return self._since

    def progress(self, now: float) -> float:
        """The part of its work that is done, 0 to 1."""
        return self.done(now) / self.trace.duration if self.trace.duration > 0 else 1.0

    def metric(self, now: float) -> float | None:
        """What it reports at this point of its training: its loss, or whatever its curve is of; None without one."""
        curve = self.trace.learning
        return None if curve is None else curve.value(self.progress(now))

    @property
    def work(self) -> float:
        """All that it will do: until its target is reached, if it stops there."""
        trace = self.trace
        if self.good_enough is None or trace.learning is None or trace.target is None or trace.target.then != STOP:
            return trace.duration
        return trace.duration * trace.learning.part(self.good_enough)

    def reaches_target_at(self) -> float:
        """When its target is reached if it goes on as it does now; inf: never, or it has been reached before."""
        curve = self.trace.learning
        if curve is None or self.good_enough is None or self._rate <= 0 or self.job.reached_at is not None:
            return math.inf
        missing = self._left - self.trace.duration * (1.0 - curve.part(self.good_enough))
        return self._since + max(0.0, missing) / self._rate

    # --- of a job that adapts its batch size

    def train_with(self, batch: int | None) -> None:
        """It trains with this batch from now on where it is; None: the best."""
        adaptive, nodes = self.trace.adaptive, spread(self.job.placements)
        if adaptive is not None:
            self.batch = adaptive.best(self.phase, nodes) if batch is None else adaptive.fitting(sum(nodes), batch)

    def is_other(self, batch: int | None) -> bool:
        """Whether to be told this batch size would change anything."""
        adaptive = self.trace.adaptive
        return adaptive is not None and batch is not None and adaptive.fitting(self.job.workers, batch) != self.batch

    def phase_ends_at(self) -> float:
        """When the present phase of its training ends; inf: it does not adapt, or stands still."""
        if self.trace.adaptive is None or self._rate <= 0:
            return math.inf
        missing = self._left - self.trace.duration * (1.0 - self.trace.adaptive.ends[self.phase])
        return self._since + max(0.0, missing) / self._rate

    def enter(self, phase: int) -> None:
        if self.trace.adaptive and phase != self.phase:
            self.phase, self.speedup = phase, self.trace.adaptive.speedup(phase)

    # ---

    def latest(self) -> list[float]:
        """The values by which its target is reached."""
        assert self.trace.learning is not None
        return [value for _, value in self.trace.learning.points(self.good_enough)][-LATEST:]

    def reports(self, now: float) -> int:
        """How many points of its curve it has reported; none before it ever ran."""
        return self.trace.learning.passed(self.progress(now)) if self._log and self.trace.learning else 0

    def reported(self, since: float, now: float) -> list[float]:
        """The values that it has reported after `since` and until now: one at each point of its curve."""
        if not self._log or self.trace.learning is None:
            return []
        return self.trace.learning.between(self._progress_at(since), self.progress(now))

    def reached_at(self, part: float) -> float:
        """When it had last done this part of its work."""
        assert self._log
        left_then = self.trace.duration * (1.0 - part)
        for since, left, rate in reversed(self._log):
            if left >= left_then and rate > 0:
                return since + (left - left_then) / rate
        return self._log[0][0]

    def _progress_at(self, time: float) -> float:
        """How far it was at a time in the past; below every point of its curve before it ever ran."""
        assert self._log
        at = bisect_right(self._log, time, key=lambda entry: entry[0])
        if at == 0:
            return -1.0
        since, left, rate = self._log[at - 1]
        return 1.0 - (left - rate * (time - since)) / self.trace.duration if self.trace.duration > 0 else 1.0

    def run(self, now: float, rate: float) -> float:
        """It runs at this rate from `now` on; returns when it will end."""
        self._left, self._since, self._rate = self.left(now), now, rate
        self.version += 1
        if self._log is not None:
            self._log.append((now, self._left, rate))
        return now + self._left / rate if rate > 0 else math.inf

    def change_rate(self, now: float, rate: float) -> float:
        """It goes faster or slower from now on, or from the end of its restart on; returns when it will end."""
        return self.run(max(now, self._since), rate)

    def suspend(self, now: float) -> None:
        """It stands still, and loses nothing."""
        self._owed = max(0.0, self._since - now)
        self.run(now, 0.0)

    def go_on(self, now: float, rate: float) -> float:
        return self.run(now + self._owed, rate)

    def stop(self, now: float, checkpoint_every: float) -> None:
        """It stops. What it did since its last checkpoint is lost; 0: it saves when it is told to stop."""
        left = self.left(now)
        if checkpoint_every > 0:
            done = self.saved - left
            times = math.floor(done / checkpoint_every + 1e-9)
            kept = self.saved - times * checkpoint_every if times else self.saved
            self.lost += kept - left
            left = kept
            if self.trace.adaptive:
                self.enter(self.trace.adaptive.phase(1.0 - left / self.trace.duration))
        self.saved = self._left = left
        self._since, self._rate = now, 0.0
        self.version += 1
        if self._log is not None:
            self._log.append((now, left, 0.0))


def _points_to_target(trace: TraceJob) -> int | None:
    if trace.target is None or trace.learning is None:
        return None
    return trace.learning.reaches(trace.target.value)


class SpecMaker:
    """Specs of trace jobs: made once for all that ask for the same.

    A job that asks for no GPU is one container. It leases next to nothing of its machine, and may use all of it; where
    whole cores are given out (`counts_cores`), it asks for as many as it keeps busy.
    """

    def __init__(
        self,
        *,
        elastic: bool,
        counts_cores: bool = False,
        cores: float = 0.0,
        preemptible: Preemptible = Preemptible.YES,
    ) -> None:
        """`cores`: of the largest machine."""
        self._elastic, self._counts_cores, self._cores = elastic, counts_cores, cores
        self._preemptible = preemptible
        self._made: dict[tuple[object, ...], JobSpec] = {}

    def spec(self, trace: TraceJob) -> JobSpec:
        curve = trace.learning
        steps = _steps(trace.announced, curve) if curve else None
        goal, target = (curve.goal, trace.target) if curve else ("min", None)
        cores = 0.0 if trace.gpus else trace.cpus
        batches = trace.adaptive.batches if trace.adaptive else None
        size = (trace.gpus, trace.workers, cores, trace.one_node)
        key = (trace.name, trace.command, size, steps, goal, target, batches)
        if key not in self._made:
            workers, resources = (self._workers(trace), _GPU) if trace.gpus else self._container(trace)
            self._made[key] = JobSpec(
                trace.name,
                trace.command,
                launcher=Launcher.HOROVOD if trace.one_node else Launcher.COMMAND,
                workers=workers,
                resources=resources,
                steps=steps,
                batch=batches,
                preemptible=self._preemptible,
                metric=Metric(goal=goal),
                target=target,
            )
        return self._made[key]

    def _container(self, trace: TraceJob) -> tuple[Workers, WorkerResources]:
        if not self._counts_cores:
            return Workers(), WorkerResources(cpus_min=_TINY, cpus_max=max(_TINY, self._cores))
        asked = max(1, math.ceil(min(trace.cpus, self._cores)))
        return Workers(), WorkerResources(cpus_min=1 if self._elastic else asked, cpus_max=asked)

    def _workers(self, trace: TraceJob) -> Workers:
        """What was asked for; under elastic policies the range that the trace says, if it says one."""
        want = trace.gpus
        if not self._elastic or trace.workers is None:
            return Workers(want, want, want)
        least, most = trace.workers
        return Workers(least, min(max(want, least), most), most)


def _steps(announced: float | None, curve: LearningCurve) -> int | None:
    """Each point of its curve is a step."""
    return None if announced is None else max(1, round(announced * len(curve)))


def make_job(number: int, trace: TraceJob, spec: JobSpec) -> Job:
    at = trace.arrival
    return Job(JobId(number), spec, trace.user, submitted_at=at, deadline=trace.deadline, queued_at=at)


def spread(placements: Sequence[Placement]) -> tuple[int, ...]:
    """How many workers are on each node, ascending."""
    if placements and placements.count(placements[0]) == len(placements):
        return (len(placements),)
    return tuple(sorted(Counter(placement.node for placement in placements).values()))
