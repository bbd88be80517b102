"""The state as it was: built anew from what the store has kept."""

from collections.abc import Iterable

from schedulearn.core.control import growth, live_resize, moves
from schedulearn.core.control.state import REGROW_AFTER, State, back_off, belongs_to
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Attempt, Job, Lease
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.states import FINISHED, PASSING, JobState
from schedulearn.core.policies.stages import Facts, Memory, Order


def restore(
    order: Order,
    facts: Facts,
    jobs: Iterable[Job],
    attempts: Iterable[Attempt],
    leases: Iterable[Lease],
    nodes: Iterable[Node],
    memory: Memory,
    now: float,
    *,
    regrow_after: float = REGROW_AFTER,
    counts_cores: bool = False,
) -> State:
    """A state with its indexes and timers. Finished jobs among `jobs` only tell what others no longer wait for."""
    known = memory if belongs_to(memory, order) else None
    state = State(order, facts, (), known, regrow_after=regrow_after)
    state.counts_cores = counts_cores
    present = list(jobs)
    if state.memory is not memory:
        for job in present:
            job.order_state = None
    follow(state, present, (), attempts, leases, nodes, now)
    return state


def follow(
    state: State,
    changed: Iterable[Job],
    gone: Iterable[JobId],
    attempts: Iterable[Attempt],
    leases: Iterable[Lease],
    nodes: Iterable[Node],
    now: float,
) -> None:
    """These jobs are new or have changed, these are gone, as are those of the first that have finished.

    What has been promised is promised anew. Who only waits, and has not changed, is not looked at.
    """
    anew = _to_index(state, changed, gone)
    state.forget_promises(nodes)
    state.attempts = {attempt.id.job: attempt for attempt in attempts}
    held = {lease.worker: lease.amounts for lease in leases}
    for attempt in state.attempts.values():
        for worker in attempt.workers:
            worker.holds = held.get(worker.id)
    anew = dict(sorted((anew | {number: state.jobs[number] for number in state.attempts}).items()))
    for job in anew.values():
        state.queue.remove(job.id)
        state.begin_anew(job)
    for attempt in state.attempts.values():
        _count_from_now(state.jobs[attempt.id.job], now)
        _promise_again(state, state.jobs[attempt.id.job], attempt)
        live_resize.watch_leavers(state, state.jobs[attempt.id.job])
    for attempt in state.attempts.values():
        job = state.jobs[attempt.id.job]
        if job.state is JobState.STOPPING and job.stop not in PASSING and not job.suspended_at:
            _promise_ended(state, job, attempt)
    for job in anew.values():
        moves.promise_again(state, job)
    for job in anew.values():
        _index(state, job, now)


def _count_from_now(job: Job, now: float) -> None:
    """The clock may have been set back since, and what kept it steady be lost: time counts on, not an hour later."""
    if job.ran.since > now:
        job.ran, job.worked = job.ran.settle(now, job.ran.rate), job.worked.settle(now, job.worked.rate)
    if job.attained.since > now:
        job.attained = job.attained.settle(now, job.attained.rate)


def _to_index(state: State, changed: Iterable[Job], gone: Iterable[JobId]) -> dict[JobId, Job]:
    """The changed jobs, those who had workers or a promise, and those who waited for others that are gone."""
    busy, left = {*state.attempts, *state.pending, *state.leaving}, {*gone}
    for job in changed:
        if job.state in FINISHED:
            left.add(job.id)
        else:
            state.jobs[job.id] = job
            busy.add(job.id)
    for number in left:
        state.queue.remove(number)
        state.jobs.pop(number, None)
        state.waits_for.pop(number, None)
        busy |= state.dependants.pop(number, set())
    return {number: state.jobs[number] for number in busy if number in state.jobs}


def _promise_again(state: State, job: Job, attempt: Attempt) -> None:
    """Who runs has its place, who is suspended its memory. Who was leaving has none: what came next is decided anew."""
    if job.state is JobState.STOPPING and job.stop in PASSING:
        state.leaving.add(job.id)
        return
    state.set_cores(job, growth.cores_held(state, job, attempt))
    there = attempt.members if job.state is JobState.STOPPING else attempt.crew
    placements = tuple(growth.placement_of(worker) for worker in there)
    if _is_suspended(job, attempt):
        state.pin(job, placements)
        state.leaving.add(job.id)  # until it is confirmed, once more, that it stands still
        return
    state.occupy(job, placements)
    if job.state in (JobState.STARTING, JobState.RUNNING):
        state.hold(job)


def _promise_ended(state: State, job: Job, attempt: Attempt) -> None:
    """A job that ends keeps the places of its workers that have ended, unless somebody is there: it may have lost its
    promise before it was stopped for good. All who run have what they hold by now."""
    for worker in attempt.crew:
        ledger = state.ledger.node(worker.node) if worker.ended_at is not None else None
        if ledger and ledger.fits(job.shape.per_worker, worker.devices):
            state.occupy(job, [growth.placement_of(worker)])


def _is_suspended(job: Job, attempt: Attempt) -> bool:
    """One that was paused or stopped while it was suspended is known by its leases."""
    whole = job.shape.per_worker
    return job.state is JobState.QUEUED or any(worker.holds not in (None, whole) for worker in attempt.running)


def _index(state: State, job: Job, now: float) -> None:
    if state.queue.order.keeps_state:
        if job.order_state is None:
            state.queue.order.joined(job, now, state.memory)
        state.watch_order_state(job, now)
    waits = {wanted for wanted in job.spec.depends_on if wanted in state.jobs}
    state.waits_for[job.id] = waits
    for wanted in waits:
        state.dependants[wanted].add(job.id)
    if job.state is JobState.QUEUED and not waits and job.id not in state.pending:
        # The clock may have been set back since, and what kept it steady be lost.
        job.not_before = min(job.not_before, now + back_off(job))
        if job.not_before > now:
            state.wake_for(job, job.not_before)
        else:
            state.queue.add(job, now)
    elif job.state is JobState.RUNNING and job.time_limit is not None:
        state.wake_for(job, now)  # the timer itself finds out how much is left
