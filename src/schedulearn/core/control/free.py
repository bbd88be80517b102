"""Is what was promised really free? A promise is made as soon as others are told to leave, not when they are out."""

import math
from collections.abc import Iterator, Sequence

from schedulearn.core.control import growth
from schedulearn.core.control.state import State
from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.job import Job, Placement, Worker
from schedulearn.core.domain.resources import Resources


def free_now(state: State, job: Job, placements: Sequence[Placement]) -> bool:
    """Whether no worker, not even one that leaves or is being suspended, holds any of these that it was promised."""
    if not state.leaving and not state.shrinking:
        return True  # what is promised is free
    if job.id in state.leaving:
        return False  # it was suspended, and goes on only once that has been confirmed
    mine = {placement.node for placement in placements}
    leaving = [(worker, amounts) for worker, amounts in _leaving(state) if worker.node in mine]
    if not leaving:
        return True
    if {d for placement in placements for d in placement.devices} & {
        d for worker, _ in leaving for d in worker.devices
    }:
        return False
    # The ledger counts what is promised. Those who leave hold something beyond that; those who have yet to start, to
    # start again elsewhere or to grow hold nothing of what they were promised.
    short: dict[tuple[NodeName, str], float] = {}
    for worker, amounts in leaving:
        _add(short, worker.node, amounts, 1)
    for other in {state.jobs[i].id: state.jobs[i] for i in (*state.pending, *state.leaving, *state.growing)}.values():
        for placement in _not_held(state, other) if other is not job else ():
            if placement.node in mine:
                _add(short, placement.node, other.shape.per_worker, -1)
    return all(amount <= _free_on(state, node, what) + 1e-6 for (node, what), amount in short.items())


def _leaving(state: State) -> Iterator[tuple[Worker, Resources]]:
    """Workers that hold something which they were not, or are no longer, promised; and how much that is."""
    for number in state.leaving:
        for worker in state.attempts[number].running:
            # A suspended one keeps its memory; any other leaves all that it holds.
            job = state.jobs[number]
            yield worker, job.shape.per_worker if job.suspended_at else state.leases[worker.id].amounts
    for number in state.shrinking - state.leaving:
        for worker in state.attempts[number].leavers:
            yield worker, state.leases[worker.id].amounts


def _not_held(state: State, job: Job) -> Sequence[Placement]:
    return growth.missing(job, state.attempts[job.id]) if job.id in state.growing else job.placements


def _add(held: dict[tuple[NodeName, str], float], node: NodeName, amounts: Resources, times: int) -> None:
    for what, amount in amounts.items():
        held[node, what] = held.get((node, what), 0.0) + times * amount


def _free_on(state: State, node: NodeName, resource: str) -> float:
    ledger = state.ledger.node(node)
    return ledger.amounts(resource)[1] if ledger else -math.inf
