"""Two jobs on one GPU: what they do to each other is assumed, who is together is for `core.policies.packing` to say.

Each keeps a part of its GPUs busy when it is alone (`TraceJob.gpu_use`, else `SimOptions.gpu_use`). Together they get
what both ask for, or, if that is more than there is, each its part of it; and both lose a little to each other's caches
and switches. There is no model of the GPUs' memory: as with turns, jobs must leave enough of it to each other.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping

from schedulearn.core.control.state import State
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.states import JobState
from schedulearn.core.policies.packing import TRIAL, Candidate, Pairs
from schedulearn.lab.sim.model import JobModel

INTERFERENCE = 0.05  # of its speed, that a job loses beside another whatever they use


class Packing:
    """Follows what the control loop does: a guest counts as suspended there, and has its turn like all others."""

    def __init__(self, models: Mapping[JobId, JobModel], gpu_use: float) -> None:
        """`gpu_use`: of jobs whose trace does not say."""
        self._models, self._gpu_use = models, gpu_use
        self._pairs = Pairs()
        # When to look again although nothing happens; at once where somebody has started, stopped or been suspended.
        self._look_at = math.inf

    @property
    def wake_at(self) -> float:
        return min(self._look_at, self._pairs.next_verdict)

    def part(self, job: JobId) -> Iterator[tuple[JobModel, float]]:
        """Something becomes of this job: it is alone from now on. With their new speeds, as parts of those alone."""
        self._look_at = -math.inf
        if pair := self._pairs.part(job):
            guest, host = (self._models[one] for one in pair)
            yield guest, 0.0
            yield host, 1.0

    def forget(self, job: JobId) -> None:
        self._pairs.forget(job)

    def speed(self, job: JobId) -> float:
        """As a part of that alone."""
        hosts = self._pairs.hosts
        other = hosts.get(job) or next((guest for guest, host in hosts.items() if host == job), None)
        return 1.0 if other is None else (1.0 - INTERFERENCE) * min(1.0, 1.0 / (self._use(job) + self._use(other)))

    def settle(self, state: State, now: float) -> Iterator[tuple[JobModel, float]]:
        """Who comes together and who is parted now, with their new speeds."""
        for guest in self._pairs.judge(self.speed, now):
            yield from self.part(guest)
        if now < self._look_at:
            return
        jobs = [state.jobs[number] for number in state.attempts if self._models[number].trace.gpus]
        known = [job for job in jobs if job.ran.at(now) >= TRIAL - 1e-6]  # for long enough to tell what they use
        news = [now + TRIAL - job.ran.at(now) for job in jobs if job.ran.rate and job.ran.at(now) < TRIAL - 1e-6]
        self._look_at = min(news, default=math.inf)
        running = [self._candidate(job) for job in known if job.placements and job.state is JobState.RUNNING]
        suspended = [self._candidate(job) for job in known if job.suspended_at]
        for guest in self._pairs.form(running, suspended, now):
            for one in (guest, self._pairs.hosts[guest]):
                yield self._models[one], self.speed(one)

    def _candidate(self, job: Job) -> Candidate:
        there = Counter(placement.node for placement in job.placements or job.suspended_at)
        return Candidate(job.id, frozenset(there.items()), self._use(job.id))

    def _use(self, job: JobId) -> float:
        use = self._models[job].trace.gpu_use
        return self._gpu_use if use is None else use
