"""Workers that come and go while their job runs on.

Of a job that is resized live (`JobSpec.resizes_live`) `job.placements` is what its crew has, and what was
promised to workers that will join (`state.growing`). A worker that was told to leave has no promise any more, but
keeps its lease until its end is confirmed.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from schedulearn.core.control import growth
from schedulearn.core.control.growth import placement_of
from schedulearn.core.control.running import accrue
from schedulearn.core.control.state import State
from schedulearn.core.domain.commands import Regroup, StartWorkers, StopWorker
from schedulearn.core.domain.ids import WorkerId
from schedulearn.core.domain.job import Attempt, Job, Placement, Worker
from schedulearn.core.domain.spec import Launcher
from schedulearn.core.domain.states import JobState

_LONGEST_BACKOFF = 3600.0  # seconds
_STILL_JOINING = 600.0  # seconds after its start in which a worker may be waiting for the others


# --- as a policy decides


def regroup(state: State, job: Job, now: float) -> bool:
    """Make the workers of a running job those of its promise; False, with nothing changed, if it has to be restarted.

    Who is not needed leaves now; who is to join does so as soon as the place is free.
    """
    attempt = state.attempts[job.id]
    stay = _who_stays(attempt.crew, job.placements)
    leave = [worker for worker in attempt.crew if worker not in stay]
    if not _can_go_on(job, stay, bool(leave)):
        return False
    if leave:
        before = len(attempt.crew)
        _tell_to_leave(state, job, leave, now)
        _changed(state, job, attempt, now)
        _note_resize(state, job, before, len(stay), now)
    wanted = growth.missing(job, attempt)
    state.rearrange(job, (*map(placement_of, attempt.crew), *wanted))  # in the order of ranks, as after a restart
    state.growing.pop(job.id, None)
    if wanted:
        state.growing[job.id] = None
    return True


def _who_stays(crew: Iterable[Worker], placements: Iterable[Placement]) -> list[Worker]:
    """One worker for each placement that has one: among equals those with the lowest ranks."""
    wanted, stay = Counter(placements), []
    for worker in crew:
        if wanted[placement_of(worker)]:
            wanted[placement_of(worker)] -= 1
            stay.append(worker)
    return stay


def _can_go_on(job: Job, stay: Sequence[Worker], some_leave: bool) -> bool:
    """Somebody must be left who has the state of the training in its memory, and never fewer than the least."""
    if not any(worker.started_at is not None for worker in stay):
        return False
    if job.spec.launcher is Launcher.HOROVOD and stay[0].id.rank != 0:
        return False  # the first worker runs the launcher
    return not some_leave or len(stay) >= job.shape.workers.min


def grow(state: State, job: Job, now: float) -> None:
    """The place that it was promised is free: new workers join."""
    attempt = state.attempts[job.id]
    del state.growing[job.id]
    before, ranks = len(attempt.crew), []
    for node, devices in growth.missing(job, attempt):
        rank = len(attempt.workers)
        worker = WorkerId(job.id, job.attempt, rank)
        attempt.workers.append(Worker(worker, node, devices, joined=attempt.generation + 1))
        ranks.append(rank)
    state.lease(attempt.workers[ranks[0] :], job.shape.per_worker)
    state.command(StartWorkers(attempt.id, tuple(ranks)))
    _changed(state, job, attempt, now, told=ranks)
    _note_resize(state, job, before, len(attempt.crew), now)


def _note_resize(state: State, job: Job, before: int, after: int, now: float) -> None:
    job.resizes += 1
    job.resized_at = now
    how = "grows" if after > before else "shrinks"
    cause = f"{how} from {before} to {after} worker{'s' * (after > 1)} without a restart"
    state.record(now, "resized", cause, job, data={"from": before, "to": after})


# --- as workers end


def goes_on_without(state: State, job: Job, worker: Worker, now: float) -> bool:
    """A worker, not the last one, has ended. True: the others go on, and nothing else follows from it."""
    attempt = state.attempts[job.id]
    if worker.left_at is not None:
        if not attempt.leavers:
            state.shrinking.discard(job.id)
        return True
    if worker.outcome is not None and worker.outcome.ok:
        _finish(state, job, attempt, now)
        return False
    return _survives(job, attempt, worker) and _lose(state, job, attempt, worker, now)


def _survives(job: Job, attempt: Attempt, lost: Worker) -> bool:
    """Whether the others can go on although this one has ended badly."""
    others = attempt.members
    if job.state is not JobState.RUNNING or job.stop is not None or attempt.finishing:
        return False
    if job.spec.launcher is Launcher.HOROVOD and lost.id.rank == 0:
        return False
    return len(others) >= job.shape.workers.min and any(worker.started_at is not None for worker in others)


def _lose(state: State, job: Job, attempt: Attempt, worker: Worker, now: float) -> bool:
    growth.give_up(state, job)
    worker.left_at = worker.ended_at
    state.shed(job, [placement_of(worker)])
    _changed(state, job, attempt, now)
    left = len(attempt.crew)
    others = "the other one goes on" if left == 1 else f"the other {left} go on"
    why = worker.outcome.words() if worker.outcome else ""
    state.record(now, "worker_lost", f"worker {worker.id} {why}; {others}", job, node=worker.node)
    return True


def _finish(state: State, job: Job, attempt: Attempt, now: float) -> None:
    """One has done its work, so the others soon will. Nobody joins any more: it would wait for those who are gone."""
    if job.stop is not None:
        return
    state.adjustable[job.shape.pool].pop(job.id, None)
    if job.state not in (JobState.RUNNING, JobState.PAUSED) or job.suspended_at:
        return
    growth.give_up(state, job)
    late = [worker for worker in attempt.members if _is_late(job, attempt, worker, now)]
    if late:
        state.shed(job, [placement_of(worker) for worker in late])
        _tell_to_leave(state, job, late, now)
        _changed(state, job, attempt, now)


def _is_late(job: Job, attempt: Attempt, worker: Worker, now: float) -> bool:
    if job.spec.launcher is Launcher.HOROVOD:
        return attempt.crew[0].ended_at is not None  # the others only kept their places
    return worker.joined > 0 and (worker.started_at is None or now - worker.started_at < _STILL_JOINING)


# --- who leaves, and who must be told


def _tell_to_leave(state: State, job: Job, workers: Iterable[Worker], now: float) -> None:
    for worker in workers:
        worker.left_at = now
        if worker.started_at is None:
            state.command(StopWorker(worker.id, worker.node, job.spec.grace))
    watch_leavers(state, job)


def watch_leavers(state: State, job: Job) -> None:
    """See to it that those who were told to leave do so."""
    for worker in state.attempts[job.id].leavers:
        state.shrinking.add(job.id)
        state.wake_for(job, (worker.left_at or 0.0) + job.spec.grace)


def stop_late(state: State, job: Job, now: float) -> None:
    """Who had its time to leave, and did not, is killed."""
    for worker in state.attempts[job.id].leavers:
        if now >= (worker.left_at or 0.0) + job.spec.grace - 1e-6:
            state.command(StopWorker(worker.id, worker.node, 0.0))


def _changed(state: State, job: Job, attempt: Attempt, now: float, told: Sequence[int] = ()) -> None:
    """The crew is another one: count for that from now on, and tell all who run but those who are started with it."""
    attempt.generation += 1
    state.touch(job)
    state.changes.attempts[attempt.id] = attempt
    if job.state is JobState.RUNNING:
        accrue(state, job, attempt, now)
        if state.queue.order.keeps_state:
            state.watch_order_state(job, now)
    group = attempt.group
    for worker in attempt.running:
        if worker.id.rank not in told:
            state.command(Regroup(worker.id, worker.node, group))


# --- after a loss


def may_grow_at(state: State, attempt: Attempt) -> float:
    """Not before this: where workers are lost again and again, more of them would be. One node lost is one loss."""
    lost = {
        worker.ended_at
        for worker in attempt.workers
        if worker.ended_at is not None and worker.ended_at == worker.left_at and not _ended_well(worker)
    }
    if not lost:
        return -math.inf
    return max(lost) + min(_LONGEST_BACKOFF, state.regrow_after * 2.0 ** min(len(lost) - 1, 30))


def _ended_well(worker: Worker) -> bool:
    return worker.outcome is not None and worker.outcome.ok
