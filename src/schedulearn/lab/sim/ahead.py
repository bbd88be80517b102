"""The simulator, begun at a present moment: with the jobs there are, where they are, and what is known of them."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from schedulearn.core.control.apply import apply
from schedulearn.core.control.hysteresis import HOT_COST
from schedulearn.core.control.present import Outlook, Present
from schedulearn.core.control.restore import restore
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Attempt, Job
from schedulearn.core.domain.resources import CPUS
from schedulearn.core.domain.spec import JobSpec, Launcher, Workers
from schedulearn.core.domain.states import FINISHED, PASSING, JobState
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.core.policies.stages import Known, Policy
from schedulearn.lab.sim.engine import Simulation
from schedulearn.lab.sim.facts import OracleFacts
from schedulearn.lab.sim.locality import Locality
from schedulearn.lab.sim.model import JobModel
from schedulearn.lab.traces.types import TraceJob, Workload

_MOST_IDLE = 1_000  # looks of a policy at a queue of which nothing runs: then nothing will
_TINY = 0.01  # cores


class PresentFacts(OracleFacts):
    """What the service knows of its jobs at this moment, and nothing more; as time goes on, less is left of it."""

    steady = False

    def __init__(self, outlook: Mapping[JobId, Outlook]) -> None:
        super().__init__()
        self._outlook = outlook

    def remaining(self, job: Job, now: float) -> float:
        return super().remaining(job, now) if self._outlook[job.id].left else math.inf

    def estimate(self, job: Job, now: float) -> Estimate | None:
        return self._scaled(job, super().remaining(job, now))

    def duration(self, job: Job) -> float:
        return super().duration(job) if self._outlook[job.id].left else math.inf

    def known(self, job: Job, now: float) -> Known:  # noqa: ARG002 - nothing is learned on the way
        return self._outlook[job.id].known

    def work(self, job: Job, now: float) -> Estimate | None:
        cores = self._models[job.id].trace.cpus * job.shape.workers.want
        return self._scaled(job, super().remaining(job, now) * cores)

    def _scaled(self, job: Job, left: float) -> Estimate | None:
        """So much is left, with a range as wide as that of now."""
        told = self._outlook[job.id].left
        if told is None:
            return None
        low, high = (max(0.0, end / told.expected) if told.expected > 0 else 1.0 for end in (told.low, told.high))
        return Estimate(left * low, left, left * high, told.source)


class Ahead(Simulation):
    """Jobs that come back from a stop are queued, and those that end are gone; held ones stay where they are."""

    def __init__(self, present: Present, policy: Policy, left: Mapping[JobId, float]) -> None:
        """`left`: seconds that each job still takes at the size that it wants."""
        there = list(_there(present))
        largest = max((node.usable[CPUS] for node in present.nodes), default=0.0)
        outlook, traces = present.outlook, {job.id: _trace(job, left[job.id], present, largest) for job, _ in there}
        workload = Workload("now", list(traces.values()))
        super().__init__(workload, present.nodes, policy, facts=PresentFacts(outlook))
        self._agenda.arrivals = ()
        attempts = [attempt for _, attempt in there if attempt]
        workers = {worker.id for attempt in attempts for worker in attempt.workers}
        live = {job.id for job in present.jobs if job.spec.resizes_live}
        for job, _ in there:
            known, trace = outlook[job.id], traces[job.id]
            cost = min(HOT_COST, known.restart_cost) if job.id in live else known.restart_cost
            self.models[job.id] = JobModel(job, trace, cost, Locality(penalty=known.locality_penalty), left[job.id])
        self._begins = present.now
        self.state = restore(
            policy.order,
            self.facts,
            [job for job, _ in there],
            attempts,
            [lease for lease in present.leases if lease.worker in workers],
            present.nodes,
            {**present.memory},
            present.now,
            counts_cores=policy.counts_cores,
        )
        self.state.keeps_history = False

    def ends(self) -> dict[JobId, float]:
        """Seconds until each job ends; those that are not in it never do, as far as can be seen."""
        for attempt in list(self.state.attempts.values()):
            self._resume(self.state.jobs[attempt.id.job], attempt)
        self.step(self._begins)
        idle = 0
        while (at := self._next_time()) < math.inf and idle < _MOST_IDLE:
            idle = 0 if self._agenda.ends else idle + 1
            self.step(at)
        ended = self.recorder.result(self.policy, waiting=0).jobs
        return {JobId(job.serial): job.ended - self._begins for job in ended}

    def _resume(self, job: Job, attempt: Attempt) -> None:
        """It runs on as it did, or stands still where it is."""
        if job.state is JobState.RUNNING:
            self._go_on(job, self._begins)
        elif job.state is JobState.QUEUED:
            apply(self.state, ev.AttemptPaused(self._begins, attempt.id))


def _there(present: Present) -> Iterator[tuple[Job, Attempt | None]]:
    """Copies of the jobs and their attempts, as the simulator has a model of them."""
    attempts = {attempt.id.job: attempt for attempt in present.attempts}
    for job in present.jobs:
        comes_back = job.state is JobState.STOPPING and job.stop in PASSING
        if job.state in FINISHED or (job.state is JobState.STOPPING and not comes_back):
            continue
        attempt = None if comes_back else _crew_of(attempts.get(job.id))
        copy = replace(job, spec=_spec(job, attempt), time_limit=None, move=None, stop=None)
        copy.checkpointed = job.checkpointed
        if attempt and job.state in (JobState.STARTING, JobState.RUNNING):
            copy.state = JobState.RUNNING
        elif job.state is not JobState.PAUSED:
            copy.state = JobState.QUEUED
            copy.ran, copy.worked, copy.attained = (
                accrual.settle(present.now, 0.0) for accrual in (job.ran, job.worked, job.attained)
            )
        yield copy, attempt


def _crew_of(attempt: Attempt | None) -> Attempt | None:
    """With those of its workers that stay."""
    if attempt is None or not attempt.members:
        return None
    return replace(attempt, stop=None, workers=[replace(worker, joined=0) for worker in attempt.members])


def _spec(job: Job, attempt: Attempt | None) -> JobSpec:
    """Who is resized live is stopped and started for that, at next to no cost; Horovod's keep the size they have."""
    spec = job.spec
    if spec.launcher is Launcher.ELASTIC:
        return replace(spec, launcher=Launcher.COMMAND)
    if spec.launcher is Launcher.HOROVOD:
        size = len(attempt.workers) if attempt else spec.workers.want
        return replace(spec, workers=Workers(size, size, size))
    return spec


def _trace(job: Job, left: float, present: Present, largest: float) -> TraceJob:
    """All of its work, in seconds at the size that it wants."""
    return TraceJob(
        label=str(job.id),
        arrival=job.submitted_at,
        duration=job.worked.at(present.now) + left,
        gpus=job.shape.workers.want,
        user=job.user,
        name=job.spec.name,
        deadline=job.deadline,
        speedup=present.outlook[job.id].speedup,
        cpus=0.0 if job.shape.gpus else max(_TINY, min(largest, job.cpus_asked)),
    )
