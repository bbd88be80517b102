"""Moves from one place to another: promised first, made by stop and start. What `apply` and a restart need of them.

A move is all of a job's workers at once. While it is under way `job.move` says so, and the place where the job goes
is promised to it, so nobody else can take it.
"""

from collections.abc import Iterable, Sequence

from schedulearn.control import growth
from schedulearn.control.contest import Undo
from schedulearn.control.ledger import Ledger
from schedulearn.control.state import State
from schedulearn.domain.errors import BadPlan, Conflict, InvalidSpec
from schedulearn.domain.ids import NodeName
from schedulearn.domain.job import Job, Move, Spot
from schedulearn.domain.node import NodeState
from schedulearn.domain.shape import Shape
from schedulearn.domain.states import PASSING, JobState
from schedulearn.domain.units import format_duration

Wish = tuple[Job, Sequence[NodeName]]  # a job, and a node for each of its workers


# --- where to


def spots_on(ledger: Ledger, job: Job, name: NodeName) -> tuple[Spot, ...]:
    """A place for all workers of a running job on that node. Otherwise it is said why not, and what would be right."""
    if job.state is not JobState.RUNNING:
        raise Conflict(f"job {job.id} cannot be moved while it is {job.state}; only a running one can")
    node = ledger.node(name)
    if node is None:
        raise InvalidSpec("node", f"there is no node {name!r}", _others(ledger, job))
    if all(spot.node == name for spot in job.spots):
        raise InvalidSpec("node", f"job {job.id} runs on {name} already", _others(ledger, job))
    if node.node.state is not NodeState.UP:
        raise InvalidSpec("node", f"{name} is {node.node.state}", _others(ledger, job))
    found = find_spots(ledger, [(job, [name] * job.workers)])
    if found is None:
        workers = "its worker" if job.workers == 1 else f"its {job.workers} workers"
        raise InvalidSpec("node", f"{name} has no room for {workers} at present", _others(ledger, job))
    return found[0]


def _others(ledger: Ledger, job: Job) -> str:
    """The nodes where the job could go now."""
    names = [node.name for node in ledger if any(spot.node != node.name for spot in job.spots)]
    able = [name for name in names if find_spots(ledger, [(job, [name] * job.workers)])]
    return f"a node with room: {', '.join(able)}" if able else "no other node has room at present"


def find_spots(ledger: Ledger, wishes: Sequence[Wish]) -> list[tuple[Spot, ...]] | None:
    """Spots for all of them, as if each had left its present place; None if one has no room. Nothing is taken."""
    undo = Undo(ledger)
    try:
        for job, _ in wishes:
            undo.give_back(job.shape, job.spots)
        return _take_all(ledger, undo, wishes)
    finally:
        undo.all()


def _take_all(ledger: Ledger, undo: Undo, wishes: Sequence[Wish]) -> list[tuple[Spot, ...]] | None:
    found = []
    for job, names in wishes:
        spots = [_take(ledger, undo, job.shape, name) for name in names]
        if None in spots:
            return None
        found.append(tuple(spot for spot in spots if spot))
    return found


def _take(ledger: Ledger, undo: Undo, shape: Shape, name: NodeName) -> Spot | None:
    node = ledger.node(name)
    if node is None or node.room_for(shape) < 1:
        return None
    spot = Spot(name, node.pick_devices(shape))
    undo.take(shape, (spot,))
    return spot


# --- from the promise to the arrival


def promise(state: State, moves: Sequence[tuple[Job, tuple[Spot, ...]]], now: float) -> None:
    """Give each job its new place instead of the present one, all of them or (BadPlan) none: two may change places."""
    before = [(job, job.spots) for job, _ in moves]
    try:
        for job, _ in moves:
            state.promise(job, (), fixed=True)
        for job, spots in moves:
            state.promise(job, spots, fixed=True)
    except BadPlan:
        for job, _ in moves:
            state.promise(job, (), fixed=True)
        for job, spots in before:
            state.ledger.take_all(job.shape, spots)
            job.spots = spots
        raise
    for job, spots in moves:
        job.move = Move(now, tuple(worker.node for worker in state.attempts[job.id].crew), spots)
    state.stale = True  # what was left is free for others as soon as it is really left


def arrived(state: State, job: Job, now: float) -> None:
    """All its workers run again: if it was on the move, that is over now."""
    move, job.move = job.move, None
    if move is None:
        return
    lost = max(0.0, now - move.since)
    job.migrations += 1
    job.migration_seconds += lost
    source, target = _names(move.source), _names(spot.node for spot in job.spots)
    cause = f"moved from {', '.join(source)} to {', '.join(target)}; {format_duration(lost)} lost"
    data: dict[str, object] = {"from": source, "to": target, "seconds": round(lost, 6)}
    state.record(now, "migrated", cause, job, data=data)


def give_up(state: State, job: Job, now: float, why: str) -> None:
    """It does not go there after all."""
    if job.move is not None:
        target = ", ".join(_names(spot.node for spot in job.move.to))
        job.move = None
        state.touch(job)
        state.record(now, "not_migrated", f"not moved to {target}: {why}", job)


def withdraw(state: State, name: NodeName, now: float, why: str) -> None:
    """The node takes nothing new: whoever was promised something there, and is not there yet, waits like others."""
    for job in list(state.jobs.values()):
        if job.pinned or not any(spot.node == name for spot in job.spots):
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
    job.spots = ()
    nodes = [state.ledger.node(spot.node) for spot in job.move.to]
    try:
        if not all(node and node.node.state is NodeState.UP for node in nodes):
            raise BadPlan("a node of it takes no jobs any more")
        state.promise(job, job.move.to, fixed=not job.gives_way)
    except BadPlan:
        job.move = None  # it waits like others
        return
    if job.state is JobState.QUEUED:
        state.pending[job.id] = None


def _names(nodes: Iterable[NodeName]) -> list[str]:
    return sorted(set(nodes))
