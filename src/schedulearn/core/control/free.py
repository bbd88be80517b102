"""Is what was promised really free? A promise is made as soon as others are told to leave, not when they are out."""

from collections.abc import Sequence

from schedulearn.core.control import growth
from schedulearn.core.control.state import State
from schedulearn.core.domain.ids import DeviceId, NodeName
from schedulearn.core.domain.job import Job, Placement, grouped
from schedulearn.core.domain.resources import Resources

_NOWHERE, _NOTHING, _NONE = NodeName(""), Resources(), frozenset[DeviceId]()


def free_now(state: State, job: Job, placements: Sequence[Placement]) -> bool:
    """Whether no worker, not even one that leaves or is being suspended, holds any of these that it was promised."""
    return Leaving(state).let_in(job, placements)


class Leaving:
    """What those who leave still hold on each node: counted once for all who wait for it, until one of them starts."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._devices: dict[NodeName, set[DeviceId]] = {}
        self._beyond: dict[NodeName, dict[str, float]] = {}  # what is held beyond what is promised; see below
        if state.leaving or state.shrinking:  # else what is promised is free
            self._count()

    def __bool__(self) -> bool:
        return bool(self._beyond)

    def _count(self) -> None:
        # The ledger counts what is promised. Those who leave hold something beyond that; those who have yet to start,
        # to start again elsewhere or to grow hold nothing of what they were promised.
        for (node, amounts), count in self._held_by_leavers().items():
            there = self._beyond.setdefault(node, {})
            for what, amount in amounts.items():
                there[what] = there.get(what, 0.0) + amount * count
        for number in {*self._state.pending, *self._state.leaving, *self._state.growing}:
            job = self._state.jobs[number]
            for (node, _), count in grouped(_not_held(self._state, job)):
                if there := self._beyond.get(node, {}):
                    for what in there:
                        there[what] -= job.shape.per_worker[what] * count

    def _held_by_leavers(self) -> dict[tuple[NodeName, Resources], int]:
        """What workers hold that they were not, or are no longer, promised: how many of them have so much where."""
        state, found = self._state, dict[tuple[NodeName, Resources], int]()
        for number in {*state.leaving, *state.shrinking}:
            job, attempt = state.jobs[number], state.attempts[number]
            # A suspended one keeps its memory; any other leaves all that it holds.
            kept = job.shape.per_worker if job.suspended_at else None
            place, count = (_NOWHERE, _NOTHING), 0  # neighbours are counted together
            for worker in attempt.running if number in state.leaving else attempt.leavers:
                holds = kept if kept is not None else worker.holds if worker.holds is not None else _NOTHING
                if worker.node is not place[0] or holds is not place[1]:
                    found[place] = found.get(place, 0) + count
                    place, count = (worker.node, holds), 0
                count += 1
                if worker.devices:
                    self._devices.setdefault(worker.node, set()).update(worker.devices)
            found[place] = found.get(place, 0) + count
        found.pop((_NOWHERE, _NOTHING), None)
        return found

    def let_in(self, job: Job, placements: Sequence[Placement]) -> bool:
        """Whether none of them holds any of these that the job was promised."""
        if job.id in self._state.leaving:
            return False  # it was suspended, and goes on only once that has been confirmed
        if not self._beyond:
            return True
        for (node, devices), _ in grouped(placements):
            if node not in self._beyond:
                continue
            if not self._devices.get(node, _NONE).isdisjoint(devices) or not self._fits(node, job):
                return False
        return True

    def _fits(self, node: NodeName, job: Job) -> bool:
        # Its own promise keeps no room for it that others could have.
        waits = job.id in self._state.pending or job.id in self._state.growing
        own = sum(count for (name, _), count in grouped(_not_held(self._state, job)) if name == node) if waits else 0
        ledger, each = self._state.ledger.node(node), job.shape.per_worker
        for what, amount in self._beyond[node].items():
            if ledger is None or amount + own * each[what] > ledger.amounts(what)[1] + 1e-6:
                return False
        return ledger is not None


def _not_held(state: State, job: Job) -> Sequence[Placement]:
    return growth.missing(job, state.attempts[job.id]) if job.id in state.growing else job.placements
