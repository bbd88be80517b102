"""How the workers of an attempt are told to end."""

from schedulearn.core.control import growth
from schedulearn.core.control.state import State
from schedulearn.core.domain.commands import StopAttempt
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.states import PASSING, JobState, StopReason, Trigger


def stop_attempt(
    state: State, job: Job, reason: StopReason, now: float, cause: str, grace: float | None = None
) -> None:
    """Tell all workers to end. A later, stronger reason takes the place of an earlier one."""
    attempt = state.attempts[job.id]
    job.stop = attempt.stop = reason
    attempt.stop_asked_at = now
    if reason not in PASSING:  # it will not come back: nothing about its place is to be decided any more
        growth.give_up(state, job)
        state.adjustable[job.shape.pool].pop(job.id, None)
    else:
        state.leaving.add(job.id)
        state.growing.pop(job.id, None)  # what it is promised now is for its next attempt
    if job.suspended_at:
        state.withdraw(job)
        if job.shape.gpus:
            grace = 0.0  # to end in peace it would have to use devices that are somebody else's by now
    job.reason = cause
    state.touch(job)
    state.changes.attempts[attempt.id] = attempt
    if job.state is not JobState.STOPPING:
        state.move(job, Trigger.STOP, now, cause)
    seconds = job.spec.grace if grace is None else grace
    state.command(StopAttempt(attempt.id, seconds))
