"""A job's time on its workers: when it counts, and how it is suspended and goes on."""

from collections.abc import Iterable

from schedulearn.core.control import growth, moves
from schedulearn.core.control.state import State
from schedulearn.core.domain.commands import PauseAttempt, ResumeAttempt
from schedulearn.core.domain.job import Attempt, Job, Worker
from schedulearn.core.domain.shape import Shape
from schedulearn.core.domain.states import JobState, Trigger

TURN_OVER = "suspended: others have their turn"


def now_runs(state: State, job: Job, attempt: Attempt, now: float, trigger: Trigger, cause: str) -> None:
    """All its workers run, or run again."""
    job.started_at = job.started_at or now
    state.move(job, trigger, now, cause)
    accrue(state, job, attempt, now)
    if job.move is not None:
        moves.arrived(state, job, now)
    watch_time_limit(state, job, now)
    if state.queue.order.keeps_state:
        state.watch_order_state(job, now)


def accrue(state: State, job: Job, attempt: Attempt | None, now: float) -> None:
    """From now on count running time, work and service, or stop counting."""
    workers = len(attempt.crew if job.spec.resizes_live else attempt.workers) if attempt else 0
    each = job.spec.resources.gpus or job.cores or job.spec.resources.cpus_min
    job.ran = job.ran.settle(now, 1.0 if attempt else 0.0)
    job.worked = job.worked.settle(now, _speed(state, job, workers) if attempt else 0.0)
    job.attained = job.attained.settle(now, workers * each)


def _speed(state: State, job: Job, workers: int) -> float:
    """With so many workers, against as many as it wants, as far as is known now."""
    want = job.shape.workers.want
    if workers == want:
        return 1.0
    speedup = state.facts.speedup(job)
    return speedup(workers) / speedup(want)


def watch_time_limit(state: State, job: Job, now: float) -> None:
    if job.time_limit is not None:
        state.wake_for(job, now + max(0.0, job.time_limit - job.ran.at(now)))


# --- paused by its user


def pause(state: State, job: Job, attempt: Attempt, now: float) -> None:
    """It keeps all it has, and nobody takes that away meanwhile. What it was only promised it does not get."""
    growth.give_up(state, job)
    state.adjustable[job.shape.pool].pop(job.id, None)
    accrue(state, job, None, now)
    state.command(PauseAttempt(attempt.id))


def resume(state: State, job: Job, attempt: Attempt, now: float, cause: str) -> None:
    state.hold(job)
    now_runs(state, job, attempt, now, Trigger.RESUME, cause)
    for worker in attempt.running:
        worker.paused = False
    state.command(ResumeAttempt(attempt.id))


# --- suspended for others


def suspend(state: State, job: Job, now: float) -> None:
    """Its turn is over, and its promise is taken back already but for its memory. The others follow when it is out."""
    attempt = state.attempts[job.id]
    accrue(state, job, None, now)
    job.preemptions += 1
    job.queued_at = now
    state.move(job, Trigger.SUSPEND, now, TURN_OVER)
    state.leaving.add(job.id)
    state.command(PauseAttempt(attempt.id))
    state.queue.add(job, now)


def pause_confirmed(state: State, job: Job, attempt: Attempt, workers: Iterable[Worker], now: float) -> None:
    """These stand still. If that is for the sake of others, only their memory remains leased."""
    whole, changed = Shape.of(job.spec), list[Worker]()
    memory = whole.memory.per_worker
    for worker in workers:
        if worker.started_at is None:
            worker.started_at = now
        if not job.suspended_at or worker.left_at is not None:
            continue  # its user paused it, or it goes on already, or leaves
        worker.paused, holds = True, worker.holds
        if holds is whole.per_worker or (holds is not None and holds != memory):
            changed.append(worker)
    state.lease(changed, memory)
    settle(state, job, attempt)


def settle(state: State, job: Job, attempt: Attempt) -> None:
    """Those who were promised its place need not wait for a suspended job of which nothing moves any more."""
    if job.suspended_at and attempt.stands_still:
        state.leaving.discard(job.id)


def go_on(state: State, job: Job, now: float) -> None:
    """Its turn has come, and its place is free: it has all of it again."""
    attempt = state.attempts[job.id]
    state.unpin(job)
    state.lease(attempt.members, job.shape.per_worker)
    resume(state, job, attempt, now, "its turn has come")


def suspends(state: State, job: Job) -> bool:
    """Whether this job, which loses its place, is suspended instead of stopped."""
    able = job.state in (JobState.STARTING, JobState.RUNNING)
    return able and not job.suspended_at and state.queue.order.suspends and job.id in state.attempts
