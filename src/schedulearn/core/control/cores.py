"""Whole cores: what a job with one container is given are cores of its machine, and it gets more while it runs.

To the stage each core is a worker. Here is where that becomes one lease and one limit of so many cores.
"""

import math
from collections.abc import Iterable, Iterator

from schedulearn.core.control.allocation import AllocationPass, Grant, Undo, place_workers, take_on_all
from schedulearn.core.control.free import free_now
from schedulearn.core.control.ledger import Ledger, NodeLedger
from schedulearn.core.control.limits import set_cpus
from schedulearn.core.control.queue import Queue
from schedulearn.core.control.running import accrue
from schedulearn.core.control.running_jobs import RunningJobs
from schedulearn.core.control.state import State
from schedulearn.core.control.suspension import put_back
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job, Placement
from schedulearn.core.domain.resources import CPUS, EPSILON
from schedulearn.core.domain.shape import Shape
from schedulearn.core.domain.states import JobState
from schedulearn.core.policies.stages import Ask, Memory, Policy

_Taken = tuple[Shape, tuple[Placement, ...]]


class CoresPass(AllocationPass):
    """Nobody loses anything in it, so each who is given something is placed at once, and the ledger is always right.

    Jobs with several workers are counted as in any other pool.
    """

    def __init__(
        self,
        policy: Policy,
        queue: Queue,
        ledger: Ledger,
        adjustable: RunningJobs,
        now: float,
        memory: Memory,
        undo: Undo,
    ) -> None:
        super().__init__(CPUS, policy, queue, ledger, adjustable, now, memory, undo, {}, shared_places=False)
        empty = [NodeLedger(node.node).free_slots(CPUS) for node in ledger]
        self._largest = math.floor(max(empty, default=0.0) + EPSILON)
        self._taken: dict[JobId, _Taken] = {}
        self._grants: dict[JobId, Grant] = {}

    @property
    def grants(self) -> list[Grant]:
        return list(self._grants.values())

    # --- what a stage sees

    @property
    def left(self) -> float:
        return self._ledger.free_slots(CPUS)

    @property
    def preemptive(self) -> bool:
        return False

    def candidates(self) -> Iterator[Job]:
        return (job for job in self.claimants() if not job.placements)

    def ask(self, job: Job) -> Ask:
        if not _counts(job):
            return super().ask(job)
        least = job.shape.least_cores
        asked = max(least, min(math.ceil(job.cpus_asked - EPSILON), self._largest))
        return Ask(1.0, least, asked, asked, job.cores)

    def room(self, job: Job) -> int:
        if not _counts(job):
            return super().room(job)
        if not job.placements:
            shape = job.shape.with_cores(job.shape.least_cores)
            return max((_whole(node.free_slots(CPUS)) for node in self._ledger if node.room_for(shape)), default=0)
        node = self._ledger.node(job.placements[0].node)
        free = node.free_slots(CPUS) if node and not node.closed else 0.0
        # One that ran before cores were counted holds some, too, though none was given to it.
        return max(0, _whole(free + (0.0 if job.cores else job.shape.slots)) - self._given_more(job))

    def give(self, job: Job, workers: int) -> bool:
        if job.placements and workers <= self.ask(job).has:
            return True  # nobody loses any
        if workers < self.ask(job).min:
            return False  # one that ran before cores were counted may not have as many yet
        before = self._taken.pop(job.id, None)
        if before:
            self._undo.give_back(*before)
        found = self._place_cores(job, workers) if _counts(job) else self._place_whole(job, workers)
        if not found:
            if before:
                self._undo.take(*before)
                self._taken[job.id] = before
            return False
        self._taken[job.id], grant = found
        if not job.placements and job.id not in self._grants:
            self._given[job.id] = workers
            self._walk.take(job)
        self._grants[job.id] = grant
        return True

    def give_all(self, sizes: Iterable[tuple[Job, int]]) -> None:
        for job, workers in sizes:
            self.give(job, workers)

    def _is_within(self, cost: float) -> bool:
        return cost <= self.left + EPSILON

    # --- where

    def _given_more(self, job: Job) -> int:
        grant = self._grants.get(job.id)
        return grant.cores - job.cores if grant else 0

    def _place_cores(self, job: Job, cores: int) -> tuple[_Taken, Grant] | None:
        if not job.placements:
            shape = job.shape.with_cores(cores)
            names = self._policy.place.place(job, shape, 1, self._ledger, self.memory)
            placements = tuple(take_on_all(names, shape, self._ledger, self._undo)) if names else ()
        else:
            shape, placements = job.shape.only_cores(cores - job.shape.slots), job.placements
            node = self._ledger.node(placements[0].node)
            placements = placements if node and node.room_for(shape) else ()
            if placements:
                self._undo.take(shape, placements)
        return ((shape, placements), Grant(job.id, placements, cores)) if placements else None

    def _place_whole(self, job: Job, workers: int) -> tuple[_Taken, Grant] | None:
        """One with several workers, or one that is suspended and can only go on where it is."""
        if job.suspended_at and not job.placements:
            back = put_back(job, self._ledger, self._undo)
            return ((job.shape, back), Grant(job.id, back)) if back else None
        mark = self._undo.mark()
        placements = place_workers(job, workers, self._policy, self._ledger, self._undo, self.memory)
        if placements is None:
            self._undo.back_to(mark)
            return None
        return (job.shape, placements[len(job.placements) :]), Grant(job.id, placements)


def _counts(job: Job) -> bool:
    """Whether its cores are what is given out. One that is suspended can only go on as it was."""
    return job.shape.least_cores > 0 and not job.suspended_at


def _whole(cores: float) -> int:
    return math.floor(cores + EPSILON)


# --- while it runs


def grow(state: State, job: Job, now: float) -> None:
    """It was promised more whole cores: it has them as soon as whoever leaves the node is out."""
    state.growing[job.id] = None
    if free_now(state, job, job.placements):
        widen(state, job, now)


def widen(state: State, job: Job, now: float) -> None:
    """Its lease and its limit become what it was promised; it is not stopped for that."""
    del state.growing[job.id]
    attempt = state.attempts[job.id]
    state.lease(attempt.running, job.shape.per_worker)
    set_cpus(state, job)
    if job.state is JobState.RUNNING:
        accrue(state, job, attempt, now)
    job.resizes += 1
    job.resized_at = now
    state.touch(job)
    cause = f"grows to {job.cores} core{'s' * (job.cores > 1)} without a restart"
    state.record(now, "resized", cause, job, data={"cores": job.cores})
