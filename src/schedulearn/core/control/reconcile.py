"""From a decision to promises, attempts, leases and commands: stop and shrink first, start when the place is free."""

from schedulearn.core.control import cores, growth, live_resize, moves
from schedulearn.core.control.allocation import Decision
from schedulearn.core.control.free import Leaving, free_now
from schedulearn.core.control.resizing import resize
from schedulearn.core.control.running import go_on, suspend, suspends
from schedulearn.core.control.state import State
from schedulearn.core.control.stopping import stop_attempt
from schedulearn.core.domain.commands import StartAttempt
from schedulearn.core.domain.errors import BadPlan
from schedulearn.core.domain.ids import AttemptId, JobId, WorkerId
from schedulearn.core.domain.job import Attempt, Job, Move, Placement, Worker
from schedulearn.core.domain.states import JobState, StopReason, Trigger


def check(state: State, decision: Decision) -> None:
    """Refuse a plan that breaks an invariant, before anything is changed. Looks only at what changes."""
    seen: set[JobId] = set()
    for number in decision.stops:
        if number in seen or number not in state.jobs or not state.jobs[number].placements:
            raise BadPlan(f"job {number} has nothing that could be taken away")
        if not _may_be_stopped(state, state.jobs[number]):
            raise BadPlan(f"job {number} loses its place, and this order interrupts nobody")
        seen.add(number)
    for grant in decision.grants:
        job = state.jobs.get(grant.job)
        if job is None or grant.job in seen or (not job.placements and grant.job not in state.queue):
            raise BadPlan(f"job {grant.job} cannot be given anything now")
        seen.add(grant.job)
        workers = job.shape.workers
        if not workers.min <= len(grant.placements) <= workers.max:
            raise BadPlan(
                f"job {grant.job} got {len(grant.placements)} workers, allowed are {workers.min}..{workers.max}"
            )
        if grant.cores and not 0 < job.shape.least_cores <= grant.cores:
            raise BadPlan(f"job {grant.job} got {grant.cores} whole cores, and needs {job.shape.least_cores}")
        if job.suspended_at and grant.placements != job.suspended_at:
            raise BadPlan(f"job {grant.job} is suspended and can go on only where it is")


def _may_be_stopped(state: State, job: Job) -> bool:
    """Elastic stages see running jobs to change their size; to stop them is for orders that interrupt."""
    return state.queue.order.preemptive or job.yields or job.id not in state.attempts or bool(job.suspended_at)


def reconcile(state: State, decision: Decision, now: float) -> None:
    """Write a decision into the state, and collect the commands that follow."""
    try:
        check(state, decision)
    except BadPlan:
        if decision.tried:
            decision.tried.all()
        raise
    before = {grant.job: state.jobs[grant.job].placements for grant in decision.grants}
    stopped = [state.jobs[number] for number in decision.stops]
    suspended = {job.id for job in stopped if suspends(state, job)}
    for number in suspended:
        growth.give_up(state, state.jobs[number])  # it is suspended with what it really has
    if decision.tried:
        _promise_what_was_tried(state, decision, stopped)
    else:
        _promise_all(state, decision, stopped, suspended)
    state.decided(decision, now)
    for job in stopped:
        _take_away(state, job, now, suspended)
    started = []
    for grant in decision.grants:
        job = state.jobs[grant.job]
        if before[grant.job]:
            _resize(state, job, before[grant.job], bool(grant.cores), now)
        else:
            started.append(job)
            state.queue.remove(job.id)
            state.pending[job.id] = None
    if state.queue.order.keeps_state:
        _note_marks(state, started, stopped, now)
    start_ready(state, now)


def nothing_to_decide(state: State, now: float) -> None:
    """Nobody waits, and nobody would grow."""
    state.decided(Decision(memory=state.memory), now)
    if state.queue.order.keeps_state:
        state.queue.order.decided((), (), state.jobs, state.memory)


def _promise_what_was_tried(state: State, decision: Decision, stopped: list[Job]) -> None:
    for job in stopped:
        state.promise(job, (), tried=True)
    for grant in decision.grants:
        state.promise(state.jobs[grant.job], grant.placements, tried=True)


def _promise_all(state: State, decision: Decision, stopped: list[Job], suspended: set[JobId]) -> None:
    """All promises of a decision, or none of them."""
    given = [(state.jobs[grant.job], grant) for grant in decision.grants]
    undone = [(job, job.placements, job.cores) for job in (*stopped, *(job for job, _ in given))]
    try:
        for job in stopped:
            if job.id in suspended:
                state.suspend(job)
            else:
                state.promise(job, ())
        for job, grant in given:  # who moves makes room first
            if len(grant.placements) == len(job.placements):
                state.promise(job, ())
        if len(given) > 1:
            given.sort(key=lambda pair: len(pair[1].placements) > len(pair[0].placements))
        for job, grant in given:
            state.promise(job, grant.placements, cores=grant.cores or None)
    except BadPlan:
        for job, *_ in undone:
            state.promise(job, ())
        for job, placements, had in undone:
            state.promise(job, placements, cores=had)
            if job.id in suspended:
                state.unpin(job)
        raise


def _take_away(state: State, job: Job, now: float, suspended: set[JobId]) -> None:
    """Others go first."""
    state.adjustable[job.shape.pool].pop(job.id, None)
    state.pending.pop(job.id, None)
    moves.give_up(state, job, now, "others go first")
    if job.id in suspended:
        suspend(state, job, now)
    elif job.id in state.attempts and not job.suspended_at:
        job.preemptions += 1
        if job.state is JobState.STOPPING:
            job.stop = state.attempts[job.id].stop = StopReason.PREEMPT
        else:
            stop_attempt(state, job, StopReason.PREEMPT, now, "others go first")
    else:  # it was only promised something
        if job.cores and not job.suspended_at:
            state.set_cores(job, 0)
        state.queue.add(job, now)


def _resize(state: State, job: Job, before: tuple[Placement, ...], shared_places: bool, now: float) -> None:
    if job.move is not None:
        state.set_move(job, job.move._replace(to=job.placements))
        state.touch(job)
    if job.id not in state.attempts:
        return  # it has not started yet: it simply starts with another size
    if job.state is JobState.STOPPING:
        return
    if shared_places:
        cores.grow(state, job, now)
    elif len(before) == job.workers:
        job.resized_at = now
        state.set_move(job, Move(now, tuple(placement.node for placement in before), job.placements))
        stop_attempt(state, job, StopReason.MIGRATE, now, "moves: others have their turn in its place")
    else:
        resize(state, job, len(before), now)


def _note_marks(state: State, started: list[Job], stopped: list[Job], now: float) -> None:
    state.queue.order.decided(started, stopped, state.jobs, state.memory)
    for job in (*started, *stopped):
        state.touch(job)
        if job.id in state.queue:
            state.queue.add(job, now)


# --- starting


def start_ready(state: State, now: float) -> None:
    """Start those who were promised a place that is now free, and let those grow who were promised more."""
    leaving = Leaving(state)
    for number in list(state.pending):
        job = state.jobs[number]
        if job.state is JobState.QUEUED and leaving.let_in(job, job.placements):
            del state.pending[number]
            (go_on if job.suspended_at else _start)(state, job, now)
            leaving = Leaving(state) if leaving else leaving
    for number in list(state.growing):
        job = state.jobs[number]
        if free_now(state, job, job.placements if job.cores else growth.missing(job, state.attempts[number])):
            (cores.widen if job.cores else live_resize.grow)(state, job, now)


def _start(state: State, job: Job, now: float) -> None:
    job.attempt += 1
    attempt = Attempt(AttemptId(job.id, job.attempt), created_at=now)
    number, newest = job.id, job.attempt
    attempt.workers = [
        Worker(WorkerId(number, newest, rank), node, devices) for rank, (node, devices) in enumerate(job.placements)
    ]
    state.lease(attempt.workers, job.shape.per_worker)
    state.attempts[job.id] = attempt
    state.changes.attempts[attempt.id] = attempt
    state.hold(job)
    state.move(job, Trigger.START, now, _where(job) if state.keeps_history else "", workers=len(job.placements))
    state.command(StartAttempt(attempt.id))


def _where(job: Job) -> str:
    with_cores = f" with {job.cores} core{'s' * (job.cores > 1)}" if job.cores else ""
    return "starts on " + ", ".join(sorted({placement.node for placement in job.placements})) + with_cores
