"""Another number of workers for a job that runs, because a policy or its user wants it."""

from collections.abc import Mapping
from dataclasses import replace

from schedulearn.core.control import growth, live_resize, moves
from schedulearn.core.control.allocation import Undo, keep_placements
from schedulearn.core.control.book import beyond
from schedulearn.core.control.free import free_now
from schedulearn.core.control.ledger import Ledger, NodeLedger
from schedulearn.core.control.state import State
from schedulearn.core.control.stopping import stop_attempt
from schedulearn.core.domain.errors import Conflict
from schedulearn.core.domain.job import Job, Placement
from schedulearn.core.domain.spec import Launcher, Preemptible, Workers
from schedulearn.core.domain.states import PASSING, WITH_WORKERS, JobState, StopReason


def resize(state: State, job: Job, before: int, now: float) -> None:
    """It runs, and was just promised another number of placements than before."""
    job.resized_at = now
    if job.spec.resizes_live and job.state is JobState.RUNNING and live_resize.regroup(state, job, now):
        return
    job.resizes += 1
    stop_attempt(state, job, StopReason.RESIZE, now, f"resized from {before} to {job.workers} workers")


# --- as its user asks


def set_range(state: State, job: Job, asked: Mapping[str, int] | None, now: float) -> None:
    """From now on it may have so many workers (None: as before); Conflict, with no worker changed, if it cannot be.

    A job that has more is made smaller at once, one that has fewer larger.
    """
    if asked is None:
        return
    if job.cores and asked["max"] > 1:
        raise Conflict(f"job {job.id} has whole cores of its machine: it can have several workers when it starts anew")
    growth.give_up(state, job)  # what counts is what it has; how far it grows is decided anew
    workers, before = Workers(**asked), job.placements
    has_workers = bool(job.suspended_at) or job.state in WITH_WORKERS
    placements = placements_within(state.ledger, job, workers) if has_workers else before
    if placements != before and job.id in state.attempts and state.attempts[job.id].finishing:
        raise Conflict(f"job {job.id} is about to end: its number of workers cannot change any more")
    if len(placements) > len(before):
        _take_at_once(state, job, placements[len(before) :])
    _set(state, job, workers, now)
    if len(placements) > len(before):
        resize(state, job, len(before), now)
        if job.id in state.growing:
            live_resize.grow(state, job, now)
    elif len(placements) < len(before):
        state.shed(job, beyond(before, placements))
        resize(state, job, len(before), now)
    elif _is_only_promised(state, job) and not workers.min <= len(before) <= workers.max:
        _take_back(state, job, now)


def _take_at_once(state: State, job: Job, placements: tuple[Placement, ...]) -> None:
    """A job below its least would be no valid one after a restart: its new workers must be able to start now."""
    state.gain(job, placements)
    if job.spec.resizes_live and not free_now(state, job, growth.missing(job, state.attempts[job.id])):
        state.shed(job, placements)
        raise Conflict(f"job {job.id} has {job.workers} workers; others have not left the place for more: ask again")


def _set(state: State, job: Job, workers: Workers, now: float) -> None:
    waits = job.id in state.queue
    state.queue.remove(job.id)
    job.spec = replace(job.spec, workers=workers)
    if not job.suspended_at:  # one that is suspended can go on as it is, and in no other way
        state.set_cores(job, job.cores)
    if waits:
        state.requeue(job, now)
    adjustable = state.adjustable[job.shape.pool]
    if job.id in adjustable:
        adjustable[job.id] = job


def _is_only_promised(state: State, job: Job) -> bool:
    """Whether it was promised a place, and waits for it or is on the way there."""
    return bool(job.placements) and (job.id in state.pending or job.stop in PASSING)


def _take_back(state: State, job: Job, now: float) -> None:
    """It was only promised something, which is not what it asks for now."""
    waits = job.id in state.pending
    moves.give_up(state, job, now, "it asks for another number of workers now")
    state.take_back(job)
    if waits:
        state.requeue(job, now)


def placements_within(ledger: Ledger, job: Job, workers: Workers) -> tuple[Placement, ...]:
    """Where a job that has workers has them if it may have so many; Conflict says why that cannot be."""
    have = len(job.suspended_at or job.placements)
    size = min(max(have, workers.want), workers.max)
    if size == have:
        return job.placements
    _check_may_change(job, have)
    if size < have:
        # Of one whose workers come and go those with the lowest ranks stay: they have long been there.
        return job.placements[:size] if job.spec.resizes_live else tuple(keep_placements(job.placements, size))
    return (*job.placements, *_room_for(ledger, job, size - have))


def _check_may_change(job: Job, have: int) -> None:
    has = f"job {job.id} has {have} worker{'s' * (have > 1)}"
    if job.suspended_at:
        raise Conflict(f"{has}, and is suspended: ask again when it runs, or for a range with {have} in it")
    if job.state is not JobState.RUNNING:
        raise Conflict(f"{has}, and is {job.state}: ask again when it runs, or for a range with {have} in it")
    if job.spec.launcher is Launcher.HOROVOD and job.spec.workers.min == job.spec.workers.max:
        raise Conflict(f"{has}, and Horovod was started for just so many: cancel it, and submit it again")
    if not (job.spec.resizes_live or job.is_preemptible):
        why = "preemptible is false" if job.spec.preemptible is Preemptible.NO else "no checkpoint of it was seen yet"
        raise Conflict(f"{has}; for another number it would have to be stopped, and it may not be: {why}")


def _room_for(ledger: Ledger, job: Job, more: int) -> list[Placement]:
    """So many free placements, on its own nodes first; Conflict if there are not so many."""
    undo, found = Undo(ledger), list[Placement]()
    try:
        while len(found) < more and (node := _node_with_room(ledger, job)):
            found.append(Placement(node.name, node.pick_devices(job.shape)))
            undo.take(job.shape, found[-1:])
    finally:
        undo.all()
    if len(found) < more:
        most = job.workers + len(found)
        room = f"there is room for {len(found)} more at present" if found else "there is no room for more at present"
        raise Conflict(f"job {job.id} has {job.workers} workers, and {room}: at least {most} could be asked for now")
    return found


def _node_with_room(ledger: Ledger, job: Job) -> NodeLedger | None:
    own = [
        node for name in dict.fromkeys(placement.node for placement in job.placements) if (node := ledger.node(name))
    ]
    others = [] if job.spec.launcher is Launcher.HOROVOD else [node for _, node in ledger.by_room(job.shape)]
    return next((node for node in (*own, *others) if node.room_for(job.shape)), None)
