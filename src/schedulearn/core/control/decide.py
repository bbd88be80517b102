"""What should change: the stages of a policy put to work on who waits, who runs and what is free."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from schedulearn.core.control.allocation import AllocationPass, Decision, Grant, Undo, place_new, place_workers
from schedulearn.core.control.cores import CoresPass
from schedulearn.core.control.fast_path import start_all
from schedulearn.core.control.hysteresis import Hysteresis
from schedulearn.core.control.ledger import Ledger
from schedulearn.core.control.making_way import make_way
from schedulearn.core.control.queue import Queue
from schedulearn.core.control.running_jobs import RunningJobs
from schedulearn.core.control.suspension import take_what_is_free
from schedulearn.core.control.turns import Unsettled, move_stopped, only_turns, take_turns
from schedulearn.core.domain.errors import BadPlan
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.resources import CPUS, GPUS
from schedulearn.core.domain.shape import Shape
from schedulearn.core.policies.stages import Memory, NoPlace, Policy

POOLS = (GPUS, CPUS)
Adjustable = Mapping[str, RunningJobs]  # by pool: jobs with workers that a policy may take away or change


def decide(
    policy: Policy,
    queue: Queue,
    ledger: Ledger,
    adjustable: Adjustable,
    now: float,
    memory: Memory,
    shown: Collection[Shape] = (),
    hysteresis: Hysteresis | None = None,
    unsettled: Unsettled | None = None,
    *,
    keep: bool = False,
) -> Decision:
    """Look, try and undo: neither queue, ledger, jobs nor the given memory is changed.

    With `keep` what was tried on the ledger may stay there, as `Decision.tried`, to be promised next or undone.

    Growth that does not pay yet (`hysteresis`) is left out of the plan; None: all growth pays.

    Of the shapes `shown` it is told exactly why they are refused, also where that follows from what others ask for.

    Where jobs take turns and only that has changed which is `unsettled`, no others are looked at, and the refusals that
    stay as they were are not told again; None: anything may have changed.
    """
    queue.rekey(now)
    decision = Decision(memory=dict(memory), settled=only_turns(policy, queue, adjustable))
    undo = Undo(ledger)
    try:
        for pool in POOLS:
            mine = may_change(policy, adjustable[pool])
            if not (queue.count(pool) or (mine and policy.allocate.elastic)):
                continue
            if decision.settled and unsettled is not None and not shown:
                take_turns(unsettled, policy, queue, ledger, mine, now, undo, decision)
                continue
            if policy.counts_cores and pool == CPUS:
                _decide_cores(policy, queue, ledger, mine, now, undo, decision)
            elif not start_all(pool, policy, queue, ledger, mine, undo, decision):
                _decide_pool(pool, policy, queue, ledger, mine, now, undo, decision, shown, hysteresis)
        make_way(policy, queue, ledger, adjustable, now, undo, decision)
    except BaseException:
        undo.all()
        raise
    if keep and not (policy.order.suspends or policy.counts_cores or queue.is_anyone_suspended):
        undo.reopen()
        decision.tried = undo
    else:
        undo.all()
    return decision


def may_change(policy: Policy, adjustable: RunningJobs) -> RunningJobs:
    """Of the running jobs that a policy may change, those that this one does."""
    if not (policy.order.preemptive or policy.allocate.elastic):
        return adjustable.yielding
    if policy.order.suspends and policy.allocate.elastic:
        # To be suspended costs a job nothing, but to be resized it must be one that may be stopped.
        return RunningJobs(job for job in adjustable.values() if job.is_preemptible)
    return adjustable


def _decide_pool(
    pool: str,
    policy: Policy,
    queue: Queue,
    ledger: Ledger,
    adjustable: RunningJobs,
    now: float,
    undo: Undo,
    decision: Decision,
    shown: Collection[Shape],
    hysteresis: Hysteresis | None,
) -> None:
    """Ask the allocate stage; where a job that was given slots has no place, ask it again without that job."""
    limits: dict[Shape, int] = {}
    no_place: dict[Shape, JobId] = {}
    while True:
        mark, memory = undo.mark(), dict(decision.memory)
        mine = [shape for shape in shown if shape.pool == pool]
        allocation = AllocationPass(pool, policy, queue, ledger, adjustable, now, memory, undo, limits, shown=mine)
        try:
            wake = _later(policy.allocate.allocate(allocation), now)
        finally:
            allocation.end()
        placing = _Placing(policy, ledger, allocation, undo, memory, hysteresis)
        if (failed := placing.place(pool)) is None:
            break
        undo.back_to(mark)
        decision.settled = False
        limits[failed.shape] = placing.placed_of(failed.shape)
        no_place.setdefault(failed.shape, failed.id)
    decision.memory = memory
    decision.stops += [job.id for job in placing.stopped]
    decision.grants += placing.grants
    decision.refusals.update(allocation.refusals)
    decision.passed += allocation.passed
    for shape, job in no_place.items():
        decision.refusals.setdefault(shape, (job, NoPlace()))
    decision.wake_at = _sooner(_sooner(decision.wake_at, wake), placing.wake_at)


def _decide_cores(
    policy: Policy, queue: Queue, ledger: Ledger, running: RunningJobs, now: float, undo: Undo, decision: Decision
) -> None:
    """Nobody loses anything, so places are found while the stage is asked."""
    allocation = CoresPass(policy, queue, ledger, running, now, dict(decision.memory), undo)
    try:
        wake = _later(policy.allocate.allocate(allocation), now)
    finally:
        allocation.end()
    decision.memory = allocation.memory
    decision.grants += allocation.grants
    decision.refusals.update(allocation.refusals)
    decision.wake_at = _sooner(decision.wake_at, wake)


def _later(wake: float | None, now: float) -> float | None:
    """When the stage wants to be asked again; BadPlan if that could go on for ever without time passing."""
    if wake is not None and not wake > now:
        raise BadPlan(f"the allocate stage wants to be asked again at {wake:g} s, and it is {now:g} s already")
    return wake


def _sooner(one: float | None, other: float | None) -> float | None:
    return min((at for at in (one, other) if at is not None), default=None)


class _Placing:
    """Gives back what was taken from jobs, then finds places for what was given."""

    def __init__(
        self,
        policy: Policy,
        ledger: Ledger,
        allocation: AllocationPass,
        undo: Undo,
        memory: Memory,
        hysteresis: Hysteresis | None,
    ) -> None:
        self._policy, self._ledger, self._undo, self._memory = policy, ledger, undo, memory
        self._allocation, self._hysteresis = allocation, hysteresis
        self._begin()

    def _begin(self) -> None:
        self.wake_at: float | None = None  # when growth that was left out may pay
        self.stopped = self._allocation.stopped()
        self.grants: list[Grant] = []
        self._placed: list[Shape] = []

    def place(self, pool: str) -> Job | None:
        """The first waiting job that has no place, or None if all is well.

        Newcomers go around the places of suspended jobs. Where one then has no place, all are placed when it is their
        turn.
        """
        if not self._allocation.suspended:
            return self._place_all()
        mark, before = self._undo.mark(), dict(self._memory)
        failed = self._place_around()
        if failed:
            self._undo.back_to(mark)
            self._memory.clear()
            self._memory.update(before)
            self._begin()
            failed = self._place_all()
        if not failed and self._policy.order.suspends and not self._policy.allocate.elastic:
            policy, ledger, undo, allocation = self._policy, self._ledger, self._undo, self._allocation
            self.stopped = move_stopped(
                self.stopped, pool, policy, allocation.facts, ledger, undo, self._memory, allocation.now, self.grants
            )
        return failed

    def _place_all(self) -> Job | None:
        self._make_room()
        return self._place_in_turn(self._allocation.changed())

    def _place_around(self) -> Job | None:
        """The same, but nobody new is placed where a job is suspended."""
        changed = self._allocation.changed()
        self._make_room()
        failed = self._place_in_turn([pair for pair in changed if pair[0].suspended_at])
        if failed:
            return failed
        others = [pair for pair in changed if not pair[0].suspended_at]
        if not others:
            return None
        with self._suspended_places_closed():
            return self._place_in_turn(others)

    @contextmanager
    def _suspended_places_closed(self) -> Iterator[None]:
        granted = {grant.job for grant in self.grants}
        waiting = [job for number, job in self._allocation.suspended.items() if number not in granted]
        kept = [(job.shape, take_what_is_free(job, self._ledger, self._undo)) for job in waiting]
        yield
        for shape, placements in kept:
            self._undo.give_back(shape, placements)

    def _make_room(self) -> None:
        for job in self.stopped:
            self._undo.give_back(job.shape.rest if self._policy.order.suspends else job.shape, job.placements)
        for job, workers in self._allocation.changed():
            if workers < len(job.placements):
                self._resize(job, workers)

    def _place_in_turn(self, changed: Sequence[tuple[Job, int]]) -> Job | None:
        for job, workers in changed:
            if not job.placements and not self._start(job, workers):
                return job
            if job.placements and workers > len(job.placements):
                self._grow(job, workers)
        return None

    def _grow(self, job: Job, workers: int) -> None:
        """Where that pays now."""
        asks, mark = self._hysteresis, self._undo.mark()
        again = asks.again(job, workers) if asks else None
        if again is None and self._resize(job, workers) and asks:
            again = asks.again_there(job, len({placement.node for placement in self.grants[-1].placements}))
            if again is not None:
                self._undo.back_to(mark)
                self.grants.pop()
        self.wake_at = _sooner(self.wake_at, again)

    def placed_of(self, shape: Shape) -> int:
        return sum(1 for other in self._placed if other is shape)

    def _start(self, job: Job, workers: int) -> bool:
        placements = self._allocation.placed(job)
        if placements is None:
            placements = place_new(job, workers, self._policy, self._ledger, self._undo, self._memory)
        if placements is None:
            return False
        self._placed.append(job.shape)
        self.grants.append(Grant(job.id, placements))
        return True

    def _resize(self, job: Job, workers: int) -> bool:
        mark = self._undo.mark()
        placements = place_workers(job, workers, self._policy, self._ledger, self._undo, self._memory)
        if placements is None:
            self._undo.back_to(mark)  # no place for more: it stays as it is
            return False
        self.grants.append(Grant(job.id, placements))
        return True
