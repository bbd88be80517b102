"""Moves from one place to another: promised first, made by stop and start. What `apply` and a restart need of them.

A move is all of a job's workers at once. While it is under way `job.move` says so, and the place where the job goes
is promised to it, so nobody else can take it.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from schedulearn.core.control import growth
from schedulearn.core.control.allocation import Undo
from schedulearn.core.control.ledger import Ledger, NodeLedger
from schedulearn.core.control.state import State
from schedulearn.core.domain.errors import BadPlan, Conflict, InvalidSpec
from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.job import Job, Move, Placement
from schedulearn.core.domain.node import Node, NodeState
from schedulearn.core.domain.shape import Shape
from schedulearn.core.domain.states import PASSING, JobState
from schedulearn.core.domain.units import format_duration

Wish = tuple[Job, Sequence[NodeName]]  # a job, and a node for each of its workers


# --- where to


class Destination(NamedTuple):
    """A node where a job does not run yet, or not with all its workers."""

    node: NodeName
    problem: str  # why it cannot go there now; "" if it can


def destinations(ledger: Ledger, job: Job) -> list[Destination]:
    """Where a running job could go, and why not to the other nodes: what `placements_on` would say of each of them."""
    _must_run(job)
    return _others(ledger, job)


def placements_on(ledger: Ledger, job: Job, name: NodeName) -> tuple[Placement, ...]:
    """A place for all workers of a running job on that node. Otherwise it is said why not, and what would be right."""
    _must_run(job)
    node = ledger.node(name)
    problem = _against(ledger, job, node.node) if node else f"there is no node {name!r}"
    found = None if problem else _room_on(ledger, job, name)
    if not found:
        able = [other.node for other in _others(ledger, job) if not other.problem]
        allowed = f"a node with room: {', '.join(able)}" if able else "no other node has room at present"
        raise InvalidSpec("node", problem, allowed)
    return found


def _must_run(job: Job) -> None:
    if job.state is not JobState.RUNNING:
        raise Conflict(f"job {job.id} cannot be moved: it {job.state.in_words}; only a running one can be")


def _others(ledger: Ledger, job: Job) -> list[Destination]:
    there = [node for node in ledger if not _is_on(job, node.name)]
    return [Destination(node.name, _against(ledger, job, node.node)) for node in there]


def _against(ledger: Ledger, job: Job, node: Node) -> str:
    """Why the job cannot go there; "" if it can."""
    if _is_on(job, node.name):
        return f"job {job.id} runs on {node.name} already"
    if node.state is not NodeState.UP:
        return f"{node.name} is {node.state}"
    if _room_on(ledger, job, node.name):
        return ""
    if not job.shape.suits(node):
        docker = node.executor == "docker"
        return f"{node.name} {'has no image for jobs that name none' if docker else 'runs no containers'}"
    workers = "its worker" if job.workers == 1 else f"its {job.workers} workers"
    if NodeLedger(node.at_best).room_for(job.shape) < job.workers:
        return f"{node.name} could not hold {workers} even if it were empty"
    return f"{node.name} has no room for {workers} at present"


def _is_on(job: Job, name: NodeName) -> bool:
    return all(placement.node == name for placement in job.placements)


def _room_on(ledger: Ledger, job: Job, name: NodeName) -> tuple[Placement, ...] | None:
    found = find_placements(ledger, [(job, [name] * job.workers)])
    return found[0] if found else None


def find_placements(ledger: Ledger, wishes: Sequence[Wish]) -> list[tuple[Placement, ...]] | None:
    """Places for all of them, as if each had left its present place; None if one has no room. Nothing is taken."""
    undo = Undo(ledger)
    try:
        for job, _ in wishes:
            undo.give_back(job.shape, job.placements)
        return _take_all(ledger, undo, wishes)
    finally:
        undo.all()


def _take_all(ledger: Ledger, undo: Undo, wishes: Sequence[Wish]) -> list[tuple[Placement, ...]] | None:
    found = []
    for job, names in wishes:
        placements = [_take(ledger, undo, job.shape, name) for name in names]
        if None in placements:
            return None
        found.append(tuple(placement for placement in placements if placement))
    return found


def _take(ledger: Ledger, undo: Undo, shape: Shape, name: NodeName) -> Placement | None:
    node = ledger.node(name)
    if node is None or node.room_for(shape) < 1:
        return None
    placement = Placement(name, node.pick_devices(shape))
    undo.take(shape, (placement,))
    return placement


# --- from the promise to the arrival


def promise(state: State, moves: Sequence[tuple[Job, tuple[Placement, ...]]], now: float) -> None:
    """Give each job its new place instead of the present one, all of them or (BadPlan) none: two may change places."""
    before = [(job, job.placements) for job, _ in moves]
    try:
        for job, _ in moves:
            state.promise(job, (), fixed=True)
        for job, placements in moves:
            state.promise(job, placements, fixed=True)
    except BadPlan:
        for job, _ in moves:
            state.promise(job, (), fixed=True)
        for job, placements in before:
            state.put_back(job, placements)
        raise
    for job, placements in moves:
        source = tuple(worker.node for worker in state.attempts[job.id].crew)
        state.set_move(job, Move(now, source, placements))
    state.stale = True  # what was left is free for others as soon as it is really left


def arrived(state: State, job: Job, now: float) -> None:
    """All its workers run again: if it was on the move, that is over now."""
    move = job.move
    if move is None:
        return
    state.set_move(job, None)
    lost = max(0.0, now - move.since)
    job.migrations += 1
    job.migration_seconds += lost
    source, target = _names(move.source), _names(placement.node for placement in job.placements)
    cause = f"moved from {', '.join(source)} to {', '.join(target)}; {format_duration(lost)} lost"
    data: dict[str, object] = {"from": source, "to": target, "seconds": round(lost, 6)}
    state.record(now, "migrated", cause, job, data=data)


def give_up(state: State, job: Job, now: float, why: str) -> None:
    """It does not go there after all."""
    if job.move is not None:
        target = ", ".join(_names(placement.node for placement in job.move.to))
        state.set_move(job, None)
        state.touch(job)
        state.record(now, "not_migrated", f"not moved to {target}: {why}", job)


def withdraw(state: State, name: NodeName, now: float, why: str) -> None:
    """The node takes nothing new: whoever was promised something there, and is not there yet, waits like others."""
    for job in list(state.jobs.values()):
        if job.suspended_at or not any(placement.node == name for placement in job.placements):
            continue  # a suspended job can be nowhere else
        if job.id in state.growing and any(s.node == name for s in growth.missing(job, state.attempts[job.id])):
            growth.give_up(state, job)
            continue
        waits, leaves = job.id in state.pending, job.state is JobState.STOPPING and job.stop in PASSING
        if waits or leaves:
            give_up(state, job, now, why)
            state.take_back(job)
        if waits:
            state.requeue(job, now)


def promise_again(state: State, job: Job) -> None:
    """After a restart: a job on the move gets its promise back, if the place is still free. Call it when all others
    have what they hold."""
    if job.move is None or not (
        job.state is JobState.QUEUED or (job.state is JobState.STOPPING and job.stop in PASSING)
    ):
        return
    state.rearrange(job, ())
    nodes = [state.ledger.node(placement.node) for placement in job.move.to]
    try:
        if not all(node and node.node.state is NodeState.UP for node in nodes):
            raise BadPlan("a node of it takes no jobs any more")
        state.promise(job, job.move.to, fixed=not job.is_preemptible)
    except BadPlan:
        state.set_move(job, None)  # it waits like others
        return
    if job.state is JobState.QUEUED:
        state.pending[job.id] = None


def _names(nodes: Iterable[NodeName]) -> list[str]:
    return sorted(set(nodes))
