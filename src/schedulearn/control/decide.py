"""What should change: the stages of a policy put to work on who waits, who runs and what is free."""

import math
from collections.abc import Mapping

from schedulearn.control.contest import Decision, Grant, PoolContest, Undo, place_workers
from schedulearn.control.ledger import Ledger
from schedulearn.control.plenty import start_everybody
from schedulearn.control.queue import Queue
from schedulearn.control.runners import Runners
from schedulearn.domain.ids import JobId
from schedulearn.domain.job import Job
from schedulearn.domain.resources import CPUS, GPUS
from schedulearn.domain.shape import Shape
from schedulearn.policies.stages import Memory, NoPlace, Policy

POOLS = (GPUS, CPUS)
Holders = Mapping[str, Runners]  # by pool: jobs with workers that a policy may take away or change
_NOBODY = Runners()


def decide(policy: Policy, queue: Queue, ledger: Ledger, holders: Holders, now: float, memory: Memory) -> Decision:
    """Look, try and undo: neither queue, ledger, jobs nor the given memory is changed."""
    queue.rekey(now)
    decision = Decision(memory=dict(memory))
    undo = Undo(ledger)
    try:
        for pool in POOLS:
            contestants = holders[pool] if policy.order.preemptive or policy.allocate.elastic else _NOBODY
            if not (queue.count(pool) or (contestants and policy.allocate.elastic)):
                continue
            if not start_everybody(pool, policy, queue, ledger, contestants, undo, decision):
                _decide_pool(pool, policy, queue, ledger, contestants, now, undo, decision)
    finally:
        undo.all()
    return decision


def _decide_pool(
    pool: str,
    policy: Policy,
    queue: Queue,
    ledger: Ledger,
    contestants: Runners,
    now: float,
    undo: Undo,
    decision: Decision,
) -> None:
    """Hold the contest; where a job that was given slots has no place, hold it again without that job."""
    limits: dict[Shape, int] = {}
    no_place: dict[Shape, JobId] = {}
    while True:
        mark, memory = undo.mark(), dict(decision.memory)
        contest = PoolContest(pool, policy, queue, ledger, contestants, now, memory, undo, limits)
        try:
            wake = policy.allocate.allocate(contest)
        finally:
            contest.end()
        placing = _Placing(policy, ledger, contest, undo, memory)
        failed = placing.place_all()
        if failed is None:
            break
        undo.back_to(mark)
        limits[failed.shape] = placing.placed_of(failed.shape)
        no_place.setdefault(failed.shape, failed.id)
    decision.memory = memory
    decision.stops += [job.id for job in placing.stopped]
    decision.grants += placing.grants
    decision.refusals.update(contest.refusals)
    for shape, job in no_place.items():
        decision.refusals.setdefault(shape, (job, NoPlace()))
    decision.wake_at = min(decision.wake_at or math.inf, wake) if wake is not None else decision.wake_at


class _Placing:
    """Gives back what was taken from jobs, then finds places for what was given."""

    def __init__(self, policy: Policy, ledger: Ledger, contest: PoolContest, undo: Undo, memory: Memory) -> None:
        self._policy, self._ledger, self._contest, self._undo, self._memory = policy, ledger, contest, undo, memory
        self.stopped = contest.stopped()
        self.grants: list[Grant] = []
        self._placed: list[Shape] = []

    def place_all(self) -> Job | None:
        """The first waiting job that has no place, or None if all is well."""
        for job in self.stopped:
            self._undo.give_back(job.shape, job.spots)
        changed = self._contest.changed()
        for job, workers in changed:
            if workers < len(job.spots):
                self._resize(job, workers)
        for job, workers in changed:
            if not job.spots and not self._start(job, workers):
                return job
            if job.spots and workers > len(job.spots):
                self._resize(job, workers)
        return None

    def placed_of(self, shape: Shape) -> int:
        return sum(1 for other in self._placed if other is shape)

    def _start(self, job: Job, workers: int) -> bool:
        spots = self._contest.placed(job)
        if spots is None:
            spots = place_workers(job, workers, self._policy, self._ledger, self._undo, self._memory)
        if spots is None:
            return False
        self._placed.append(job.shape)
        self.grants.append(Grant(job.id, spots))
        return True

    def _resize(self, job: Job, workers: int) -> None:
        mark = self._undo.mark()
        spots = place_workers(job, workers, self._policy, self._ledger, self._undo, self._memory)
        if spots is None:
            self._undo.back_to(mark)  # no place for more: it stays as it is
        else:
            self.grants.append(Grant(job.id, spots))
