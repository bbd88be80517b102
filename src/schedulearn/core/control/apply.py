"""What follows from an event: the job state machine. An impossible transition is a bug that says which."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from schedulearn.core.control import limits, live_resize, moves, nodes, resizing, share, targets
from schedulearn.core.control.running import accrue, now_runs, pause, pause_confirmed, resume, settle, watch_time_limit
from schedulearn.core.control.state import State, back_off
from schedulearn.core.control.stopping import stop_attempt
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.commands import ForgetJob, StopWorker
from schedulearn.core.domain.errors import Conflict, SchedulearnError
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Attempt, Job, Worker
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.spec import Workers
from schedulearn.core.domain.states import FINISHED, PASSING, JobState, StopReason, Trigger
from schedulearn.core.domain.units import format_duration

_IN_SPEC = ("workers", "target")  # what an update changes in the job's spec


def apply(state: State, event: ev.Event) -> None:
    """Change the state as the event says; commands and history are collected in `state.changes`."""
    _HANDLERS[type(event)](state, event)


# --- submission and dependencies ---


def _submitted(state: State, event: ev.Submitted) -> None:
    job = event.job
    state.jobs[job.id] = job
    job.queued_at = event.at
    if not job.shape.gpus and state.attempts:
        job.beside = sum(not state.jobs[number].shape.gpus for number in state.attempts)
        state.touch(job)
    waits: set[JobId] = set()
    for wanted in job.spec.depends_on:
        other = state.jobs.get(wanted) or state.changes.jobs.get(wanted)  # the latter if it ended in this very cycle
        ended = other.state if other else event.ended.get(wanted)
        if ended is JobState.SUCCEEDED:
            continue
        if ended is None or ended in FINISHED:
            _fail_waiting(state, job, event.at, f"job {wanted}, which it depends on, {ended or 'is gone'}")
            return
        waits.add(wanted)
        state.dependants[wanted].add(job.id)
    state.waits_for[job.id] = waits
    if waits:
        job.reason = "waits for " + ", ".join(f"job {i}" for i in sorted(waits))
        state.touch(job)
    _enqueue_if_ready(state, job, event.at)


def _enqueue_if_ready(state: State, job: Job, now: float) -> None:
    if job.state is not JobState.QUEUED or state.waits_for.get(job.id):
        return
    if job.not_before > now:
        state.wake_for(job, job.not_before)
        return
    state.enqueue(job, now)


def _settle_dependants(state: State, job: Job, now: float) -> None:
    """A finished job lets those that wait for it go on, or fails them, and so on down the line."""
    for name in sorted(state.dependants.pop(job.id, ())):
        other = state.jobs[name]
        if other.state in FINISHED:
            continue
        if job.state is JobState.SUCCEEDED:
            state.waits_for[name].discard(job.id)
            if not state.waits_for[name] and other.state is JobState.QUEUED:
                other.reason = ""
                state.touch(other)
            _enqueue_if_ready(state, other, now)
        else:
            _fail_waiting(state, other, now, f"job {job.id}, which it depends on, {job.state}")


def _fail_waiting(state: State, job: Job, now: float, cause: str) -> None:
    _finish(state, job, Trigger.FAIL, now, cause)  # it never started: nothing starts before what it depends on


def _finish(state: State, job: Job, trigger: Trigger, now: float, cause: str) -> None:
    _leave_queue(state, job)
    state.take_back(job)
    state.move(job, trigger, now, cause)
    for wanted in state.waits_for.pop(job.id, ()):
        state.dependants[wanted].discard(job.id)
    if state.queue.order.keeps_state:
        state.queue.order.finished(job, now, state.memory)
    if job.id in state.dependants:
        _settle_dependants(state, job, now)
    # What finished is the store's from here on; nobody in this state refers to it any more.
    state.jobs.pop(job.id, None)
    if job.forget:
        _forget(state, job, now)


def _leave_queue(state: State, job: Job) -> None:
    if job.id in state.queue:
        state.stale = True  # it may have stood in the way of others
        state.queue.remove(job.id)


def _forget(state: State, job: Job, now: float) -> None:
    state.changes.jobs.pop(job.id, None)
    state.changes.attempts = {i: a for i, a in state.changes.attempts.items() if i.job != job.id}
    state.changes.forgotten.append(job.id)
    state.record(now, "deleted", f"job {job.id} ({job.spec.name}) was deleted")
    state.command(ForgetJob(job.id))


# --- workers ---


def _worker_started(state: State, event: ev.WorkerStarted) -> None:
    found = _find(state, event.worker.job, event.worker.attempt, event.worker.rank)
    if found is None or found[2].started_at is not None:
        return  # of an earlier attempt, or told before: executors may repeat themselves
    job, attempt, worker = found
    state.changes.attempts[attempt.id] = attempt
    _note_start(state, job, [worker], event.at, event.note)
    if job.state is JobState.STARTING and attempt.all_started:
        now_runs(state, job, attempt, event.at, Trigger.STARTED, "")


def _attempt_started(state: State, event: ev.AttemptStarted) -> None:
    job, attempt = state.jobs.get(event.attempt.job), state.attempts.get(event.attempt.job)
    if job is None or attempt is None or attempt.id != event.attempt:
        return
    state.changes.attempts[attempt.id] = attempt
    _note_start(state, job, [worker for worker in attempt.workers if worker.started_at is None], event.at)
    if job.state is JobState.STARTING:
        now_runs(state, job, attempt, event.at, Trigger.STARTED, "")


def _note_start(state: State, job: Job, workers: Sequence[Worker], now: float, note: str = "") -> None:
    for worker in workers:
        worker.started_at = now
    for worker in workers if state.keeps_history else ():
        cause = f"worker {worker.id} runs on {worker.node}" + (f"; {note}" if note else "")
        state.record(now, "worker_started", cause, job, node=worker.node)


def _worker_paused(state: State, event: ev.WorkerPaused) -> None:
    found = _find(state, event.worker.job, event.worker.attempt, event.worker.rank)
    if found and found[2].ended_at is None:
        job, attempt, worker = found
        pause_confirmed(state, job, attempt, [worker], event.at)


def _attempt_paused(state: State, event: ev.AttemptPaused) -> None:
    job, attempt = state.jobs.get(event.attempt.job), state.attempts.get(event.attempt.job)
    if job and attempt and attempt.id == event.attempt:
        pause_confirmed(state, job, attempt, attempt.running, event.at)


def _worker_exited(state: State, event: ev.WorkerExited) -> None:
    found = _find(state, event.worker.job, event.worker.attempt, event.worker.rank)
    if found is None or found[2].ended_at is not None:
        return
    job, attempt, worker = found
    state.changes.attempts[attempt.id] = attempt
    _note_exit(state, job, [worker], event.outcome, event.at)
    if attempt.all_ended:
        _attempt_over(state, job, attempt, event.at)
    elif job.spec.resizes_live and live_resize.goes_on_without(state, job, worker, event.at):
        return
    elif not event.outcome.ok and job.stop is None:
        stop_attempt(state, job, StopReason.FAILURE, event.at, f"worker {worker.id} {event.outcome.words()}")
    else:
        settle(state, job, attempt)


def _attempt_exited(state: State, event: ev.AttemptExited) -> None:
    job, attempt = state.jobs.get(event.attempt.job), state.attempts.get(event.attempt.job)
    if job is None or attempt is None or attempt.id != event.attempt:
        return
    state.changes.attempts[attempt.id] = attempt
    _note_exit(state, job, attempt.running, event.outcome, event.at)
    _attempt_over(state, job, attempt, event.at)


def _note_exit(state: State, job: Job, workers: Sequence[Worker], outcome: Outcome, now: float) -> None:
    for worker in workers:
        worker.ended_at, worker.outcome = now, outcome
    state.end_leases(workers)
    for worker in workers if state.keeps_history else ():
        data: dict[str, object] = {
            "exit_code": outcome.exit_code,
            "signal": outcome.signal,
            "ending": str(outcome.ending),
        }
        state.record(now, "worker_exited", f"worker {worker.id} {outcome.words()}", job, node=worker.node, data=data)


def _attempt_over(state: State, job: Job, attempt: Attempt, now: float) -> None:
    attempt.ended_at = now
    del state.attempts[job.id]
    state.leaving.discard(job.id)
    state.shrinking.discard(job.id)
    state.growing.pop(job.id, None)
    if job.suspended_at:
        state.withdraw(job)
    accrue(state, job, None, now)
    reason, job.stop = job.stop, None
    job.outcome = _decisive(attempt)
    if reason in (None, StopReason.FAILURE) or _was_in_time(job, reason):
        _ended_by_itself(state, job, now)
    elif _was_over(job, attempt, reason):
        moves.give_up(state, job, now, "it had ended before")
        _ended_by_itself(state, job, now)
    elif reason is StopReason.CANCEL:
        _finish(state, job, Trigger.CANCEL, now, job.reason)
    elif reason in (StopReason.TIME_LIMIT, StopReason.DISK):
        _finish(state, job, Trigger.FAIL, now, job.reason)
    elif reason is StopReason.TARGET:
        _finish(state, job, Trigger.SUCCEED, now, job.reason)
    elif job.placements:  # it was promised another place or size: there it goes as soon as that is free
        job.queued_at = now
        state.move(job, Trigger.REQUEUE, now, job.reason)
        state.pending[job.id] = None
    else:
        settled = not state.stale
        _requeue(state, job, now, job.reason)
        if settled and job.id in state.last_stopped:
            state.stale = False  # the decision that took its place away knew that it would wait from then on


def _was_in_time(job: Job, reason: StopReason | None) -> bool:
    """It had succeeded before its time limit, but nobody knew: the service was away when it ended."""
    if reason is not StopReason.TIME_LIMIT or job.outcome is None or job.time_limit is None:
        return False
    return job.outcome.ok and job.ran.value < job.time_limit - 1e-6


def _was_over(job: Job, attempt: Attempt, reason: StopReason | None) -> bool:
    """It had ended by itself before it was told to, but nobody knew: that is how it ended, and it is not run again."""
    asked, outcome = attempt.stop_asked_at, job.outcome
    if asked is None or outcome is None or not (reason in PASSING or (reason is StopReason.CANCEL and outcome.ok)):
        return False
    ends = [
        worker.ended_at
        for worker in attempt.crew
        if worker.ended_at is not None and (worker.outcome is outcome or worker.outcome == outcome)
    ]
    return (max if outcome.ok else min)(ends, default=asked) < asked


def _decisive(attempt: Attempt) -> Outcome:
    """The outcome that speaks for the attempt: the first bad one of its crew, else the first."""
    first = attempt.workers[0].outcome
    for worker in attempt.workers:
        if worker.outcome is not first:
            break
    else:
        if first:
            return first
    outcomes = [w.outcome for w in sorted(attempt.crew, key=lambda w: (w.ended_at or 0.0, w.id)) if w.outcome]
    return next((o for o in outcomes if not o.ok), outcomes[0])


def _ended_by_itself(state: State, job: Job, now: float) -> None:
    outcome = job.outcome
    assert outcome is not None
    if outcome.ok:
        _finish(state, job, Trigger.SUCCEED, now, "finished")
    elif not outcome.counts_as_failure:
        _requeue(state, job, now, f"{outcome.words()}; queued again")
    elif outcome.ending is Ending.OUT_OF_MEMORY:
        # It would only happen again.
        _finish(state, job, Trigger.FAIL, now, outcome.words())
    elif job.restarts < job.spec.max_restarts:
        _retry(state, job, outcome, now)
    else:
        _finish(state, job, Trigger.FAIL, now, outcome.words())


def _retry(state: State, job: Job, outcome: Outcome, now: float) -> None:
    job.restarts += 1
    delay = back_off(job)
    tries = f"restart {job.restarts} of {job.spec.max_restarts}"
    _requeue(state, job, now, f"{outcome.words()}; {tries} in {format_duration(delay)}", delay)


def _requeue(state: State, job: Job, now: float, cause: str, delay: float = 0.0) -> None:
    job.not_before = now + delay  # never an earlier one: the clock may have been set back since
    state.take_back(job)
    job.queued_at = now
    state.move(job, Trigger.REQUEUE, now, cause)
    _enqueue_if_ready(state, job, now)


def _find(state: State, job_id: JobId, number: int, rank: int) -> tuple[Job, Attempt, Worker] | None:
    job, attempt = state.jobs.get(job_id), state.attempts.get(job_id)
    if job is None or attempt is None or attempt.id.number != number or rank >= len(attempt.workers):
        return None
    return job, attempt, attempt.workers[rank]


def _checkpoint_seen(state: State, event: ev.CheckpointSeen) -> None:
    job = state.jobs.get(event.job)
    if job is None or job.checkpointed:
        return
    job.checkpointed = True
    if job.state in (JobState.STARTING, JobState.RUNNING):
        state.hold(job)
        state.stale = True


def _disk_exceeded(state: State, event: ev.DiskExceeded) -> None:
    """Told again and again until it has gone: what has been told once may have been lost with a write that failed."""
    job = state.jobs.get(event.job)
    if job and job.id in state.attempts and job.stop not in (StopReason.DISK, StopReason.CANCEL):
        stop_attempt(state, job, StopReason.DISK, event.at, f"stopped: {event.why}", event.grace)


# --- what people ask for ---


def _limits_set(state: State, event: ev.LimitsSet) -> None:
    limits.limits_set(state, event)
    if cause := limits.restart_for_threads(state, event):
        stop_attempt(state, state.jobs[event.worker.job], StopReason.RESIZE, event.at, cause)


def _cancel_asked(state: State, event: ev.CancelAsked) -> None:
    if job := state.jobs.get(event.job):
        _cancel(state, job, event.at, f"cancelled by {event.by}")


def _cancel(state: State, job: Job, now: float, cause: str, grace: float | None = None) -> None:
    if job.id in state.attempts:
        stop_attempt(state, job, StopReason.CANCEL, now, cause, grace)
    else:
        _finish(state, job, Trigger.CANCEL, now, cause)


def _delete_asked(state: State, event: ev.DeleteAsked) -> None:
    job = state.jobs.get(event.job)
    if job is None:  # finished before: only the store has it
        state.changes.forgotten.append(event.job)
        state.record(event.at, "deleted", f"job {event.job} was deleted by {event.by}")
        state.command(ForgetJob(event.job))
        return
    job.forget = True
    _cancel(state, job, event.at, f"deleted by {event.by}", grace=0.0)


def _pause_asked(state: State, event: ev.PauseAsked) -> None:
    job = state.jobs.get(event.job)
    if job is None:
        return
    if job.state not in (JobState.QUEUED, JobState.RUNNING):  # it was in one of these when it was asked
        state.record(event.at, "not_paused", f"not paused, as {event.by} asked: it {job.state.in_words}", job)
        return
    _leave_queue(state, job)
    attempt = state.attempts.get(job.id)
    if attempt is None:
        state.take_back(job)
    elif job.suspended_at:  # suspended already: from now on it does not even wait for its turn
        state.withdraw(job)
    state.move(job, Trigger.PAUSE, event.at, f"paused by {event.by}")
    if attempt and not job.suspended_at:
        pause(state, job, attempt, event.at)


def _resume_asked(state: State, event: ev.ResumeAsked) -> None:
    job = state.jobs.get(event.job)
    if job is None or job.state is not JobState.PAUSED:
        return
    attempt = state.attempts.get(job.id)
    if attempt is None or job.suspended_at:  # others may have its place by now
        state.move(job, Trigger.RELEASE, event.at, f"released by {event.by}")
        _enqueue_if_ready(state, job, event.at)
    else:
        resume(state, job, attempt, event.at, f"resumed by {event.by}")


def _migrate_asked(state: State, event: ev.MigrateAsked) -> None:
    job = state.jobs.get(event.job)
    if job is None:
        return
    try:
        placements = moves.placements_on(state.ledger, job, event.node)
    except SchedulearnError as error:
        cause = f"not moved to {event.node}, as {event.by} asked: {error}"
        state.record(event.at, "not_migrated", cause, job, node=event.node)
        return
    moves.promise(state, [(job, placements)], event.at)
    stop_attempt(state, job, StopReason.MIGRATE, event.at, f"moves to {event.node}, as {event.by} asked")


def _update_asked(state: State, event: ev.UpdateAsked) -> None:
    job = state.jobs.get(event.job)
    if job is None:
        return
    try:
        resizing.set_range(state, job, event.fields.get("workers"), event.at)
    except Conflict as error:
        state.record(event.at, "not_updated", f"not updated, as {event.by} asked: {error}", job)
        return
    if "target" in event.fields:
        targets.set_target(job, event.fields["target"])
    for name, value in event.fields.items():
        if name not in _IN_SPEC:
            setattr(job, name, value)
    state.touch(job)
    state.record(event.at, "updated", f"{_fields_in_words(event.fields)} set by {event.by}", job, data={**event.fields})
    if "cpus_limit" in event.fields:
        limits.set_cpus(state, job)
    state.rank_anew(job, event.at)
    if job.state is JobState.RUNNING:
        watch_time_limit(state, job, event.at)


def _fields_in_words(fields: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {_in_words(name, value)}" for name, value in fields.items())


def _in_words(name: str, value: Any) -> str:
    if value is None:
        return "none"
    if name == "workers":
        return str(Workers(**value))
    if name == "target":
        return f"{value['value']:g}, then {value['then']},"
    if name == "time_limit":
        return format_duration(value)
    if name == "deadline":
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return str(value)


# --- time ---


def _tick(state: State, event: ev.Tick) -> None:
    for name in state.due(event.at):
        job = state.jobs.get(name)
        if job is None:
            continue
        if state.order_state_changes and state.queue.order.expired(job, event.at, state.memory):
            _mark_changed(state, job, event.at)
        if name in state.shrinking:
            live_resize.stop_late(state, job, event.at)
        if job.state is JobState.QUEUED and name not in state.queue and not job.placements:
            _enqueue_if_ready(state, job, event.at)
        elif job.state is JobState.RUNNING and job.time_limit is not None:
            if job.ran.at(event.at) >= job.time_limit - 1e-6:
                limit = format_duration(job.time_limit)
                stop_attempt(state, job, StopReason.TIME_LIMIT, event.at, f"its time limit of {limit} was reached")
            else:  # paused in between, or the limit was raised
                watch_time_limit(state, job, event.at)
    if state.removing:
        nodes.remove_empty(state, event.at)


def _mark_changed(state: State, job: Job, now: float) -> None:
    state.touch(job)
    state.watch_order_state(job, now)
    state.rank_anew(job, now)


# --- nodes ---


def _node_gone(state: State, event: ev.NodeGone) -> None:
    """Its workers are given up. Should it ever answer again, they are stopped."""
    outcome = Outcome(Ending.LOST, detail=event.why)
    for attempt in list(state.attempts.values()):
        for worker in [worker for worker in attempt.running if worker.node == event.node]:
            state.command(StopWorker(worker.id, worker.node, 0.0))
            _worker_exited(state, ev.WorkerExited(event.at, worker.id, outcome))


def _remove_node_asked(state: State, event: ev.RemoveNodeAsked) -> None:
    ledger = state.ledger.node(event.node)
    if ledger is None:
        return
    there = [a for a in state.attempts.values() if any(worker.node == event.node for worker in a.running)]
    if there and not event.force:  # something has started since it was asked
        cause = f"node {event.node} was not removed, as {event.by} asked: jobs run there"
        state.record(event.at, "not_removed", cause, node=event.node)
        return
    nodes.begin_to_remove(state, event.node, event.at)
    for attempt in there:
        job = state.jobs[attempt.id.job]
        if job.stop is None and any(worker.node == event.node for worker in attempt.members):  # else they leave anyway
            stop_attempt(state, job, StopReason.PREEMPT, event.at, f"{event.by} removes node {event.node}")
            state.take_back(job)
    if ledger.node.lost_at is not None:  # nobody there will ever say that it has stopped
        _node_gone(state, ev.NodeGone(event.at, event.node, f"node {event.node} was removed while it did not answer"))


_HANDLERS: dict[type[ev.Event], Callable[[State, Any], None]] = {
    ev.Submitted: _submitted,
    ev.WorkerStarted: _worker_started,
    ev.WorkerPaused: _worker_paused,
    ev.WorkerExited: _worker_exited,
    ev.AttemptStarted: _attempt_started,
    ev.AttemptPaused: _attempt_paused,
    ev.AttemptExited: _attempt_exited,
    ev.LimitsSet: _limits_set,
    ev.Shared: share.shared,
    ev.CheckpointSeen: _checkpoint_seen,
    ev.DiskExceeded: _disk_exceeded,
    ev.CancelAsked: _cancel_asked,
    ev.DeleteAsked: _delete_asked,
    ev.PauseAsked: _pause_asked,
    ev.ResumeAsked: _resume_asked,
    ev.MigrateAsked: _migrate_asked,
    ev.UpdateAsked: _update_asked,
    ev.TargetReached: targets.target_reached,
    ev.NodeSeen: nodes.node_seen,
    ev.NodeProbed: nodes.node_probed,
    ev.NodeLost: nodes.node_lost,
    ev.NodeGone: _node_gone,
    ev.RemoveNodeAsked: _remove_node_asked,
    ev.LabelsAsked: nodes.labels_asked,
    ev.DrainAsked: nodes.drain_asked,
    ev.Tick: _tick,
}
