"""Who can be where it is: a suspended job goes on in its own place, or not at all."""

from collections.abc import Collection, Sequence
from typing import Protocol

from schedulearn.core.control.ledger import Ledger
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job, Placement, grouped
from schedulearn.core.domain.node import NodeState
from schedulearn.core.domain.shape import Shape


class Undo(Protocol):
    """What is tried on the ledger, and undone later."""

    def take(self, shape: Shape, placements: Sequence[Placement]) -> None: ...

    def give_back(self, shape: Shape, placements: Sequence[Placement]) -> None: ...

    def mark(self) -> tuple[int, int]: ...

    def back_to(self, mark: tuple[int, int]) -> None: ...


class SharedPlaces:
    """For one contest: who of the running and the suspended jobs can be in their places together.

    Counting slots does not tell: two jobs on one device take turns even where another device is idle. So all places
    are cleared on the ledger, and whoever is given something goes back to its own, if nobody else is there by then.
    Running jobs that are given something before any suspended one keep their places, and need not be cleared.
    """

    def __init__(self, ledger: Ledger, undo: Undo, running: Collection[Job], *, suspends: bool) -> None:
        self._ledger, self._undo, self._suspends = ledger, undo, suspends
        self._logged = undo.mark()[0]
        self._there: set[JobId] = set()
        self._running: Collection[Job] | None = running  # None: their places are cleared

    def clear(self) -> None:
        """Clear the places of all running jobs that have not been given anything yet."""
        for job in self._running or ():
            if job.id not in self._there:
                self._undo.give_back(job.shape.rest if self._suspends else job.shape, job.placements)
        self._running = None

    def put(self, job: Job) -> bool:
        """It stays, or goes on; False if its place is taken. Who has no place yet is no concern of ours."""
        if job.id in self._there or not (job.placements or job.suspended_at):
            return True
        if self._running is not None:
            if job.placements and all(self._is_surely_its_own(placement) for placement, _ in grouped(job.placements)):
                self._there.add(job.id)
                return True
            self.clear()
        if not job.placements:
            done = put_back(job, self._ledger, self._undo) is not None
        else:
            before = self._undo.mark()
            done = all(self._take(job, placement, count) for placement, count in grouped(job.placements))
            if not done:
                self._undo.back_to(before)
        if done:
            self._there.add(job.id)
        return done

    def end(self) -> None:
        """Leave the ledger as it was; places are found later, for all at once."""
        self._undo.back_to((self._logged, self._undo.mark()[1]))

    def _is_surely_its_own(self, placement: Placement) -> bool:
        """Whether all who run there have room: not so where a node has shrunk, or others use a device."""
        node = self._ledger.node(placement.node)
        return node is not None and not placement.devices and not node.is_short

    def _take(self, job: Job, placement: Placement, count: int) -> bool:
        shape, node = job.shape.rest if self._suspends else job.shape, self._ledger.node(placement.node)
        if node is None or node.fits(shape.per_worker, placement.devices, count):
            if node:
                self._undo.take(shape, (placement,) * count)
            return True
        return False


def put_back(job: Job, ledger: Ledger, undo: Undo) -> tuple[Placement, ...] | None:
    """The place in which a job is suspended, taken from the ledger; None if it is not free. It may well be draining."""
    before, groups = undo.mark(), grouped(job.suspended_at)
    # Most fail, and then nothing needs to be undone. What fits by itself may not do so together.
    if all(_is_free(job, placement, count, ledger) for placement, count in groups):
        if all(_take(job, placement, count, ledger, undo) for placement, count in groups):
            return job.suspended_at
        undo.back_to(before)
    return None


def take_what_is_free(job: Job, ledger: Ledger, undo: Undo) -> list[Placement]:
    """What is free of the place in which a job is suspended, taken from the ledger."""
    found: list[Placement] = []
    for placement, count in grouped(job.suspended_at):
        if _take(job, placement, count, ledger, undo):
            found += (placement,) * count
        else:
            found += [placement for _ in range(count - 1) if _take(job, placement, 1, ledger, undo)]
    return found


def _take(job: Job, placement: Placement, count: int, ledger: Ledger, undo: Undo) -> bool:
    if not _is_free(job, placement, count, ledger):
        return False
    undo.take(job.shape, (placement,) * count)
    return True


def _is_free(job: Job, placement: Placement, count: int, ledger: Ledger) -> bool:
    node = ledger.node(placement.node)
    if node is None or node.closed or node.node.state is NodeState.LOST:
        return False
    return node.fits(job.shape.per_worker, placement.devices, count)
