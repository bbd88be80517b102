"""The state as it was: built anew from what the store has kept."""

from collections.abc import Iterable

from schedulearn.control.state import State
from schedulearn.domain.job import Attempt, Job, Lease
from schedulearn.domain.node import Node
from schedulearn.domain.states import FINISHED, JobState
from schedulearn.policies.stages import Order


def restore(
    order: Order,
    jobs: Iterable[Job],
    attempts: Iterable[Attempt],
    leases: Iterable[Lease],
    nodes: Iterable[Node],
    now: float,
) -> State:
    """A state with its indexes and timers. Finished jobs among `jobs` only tell what others no longer wait for."""
    state = State(order, nodes, leases)
    state.jobs = {job.id: job for job in jobs if job.state not in FINISHED}
    state.attempts = {attempt.id.job: attempt for attempt in attempts}
    for job in state.jobs.values():
        waits = {wanted for wanted in job.spec.depends_on if wanted in state.jobs}
        state.waits_for[job.id] = waits
        for wanted in waits:
            state.dependants[wanted].add(job.id)
        if job.state is JobState.QUEUED and not waits:
            if job.not_before > now:
                state.wake_for(job, job.not_before)
            else:
                state.queue.add(job, now)
        elif job.state is JobState.RUNNING and job.time_limit is not None:
            state.wake_for(job, now)  # the timer itself finds out how much is left
    return state
