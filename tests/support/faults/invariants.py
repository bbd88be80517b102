"""What must be true when the faults are over and time has gone on: the service's story against the world's."""

from collections.abc import Iterator

from schedulearn.core.domain.job import Attempt
from schedulearn.core.domain.outcome import Ending
from schedulearn.core.domain.states import FINISHED, PASSING, TRANSITIONS, JobState, StopReason, Trigger
from schedulearn.store import JobRow, StoredEvent
from support.faults.run import Run

_OVER = frozenset({"succeed", "fail", "cancel"})


def broken(run: Run) -> list[str]:
    """All that is not as it should be, the first found first; empty if all is well."""
    problems = list(run.problems)
    if run.life is None:
        return [*problems, "the service is not there any more"]
    problems += _left_over(run)
    for key in run.specs:
        job = run.jobs.get(key)
        if job is None:
            problems.append(f"submission {key} was never taken")
            continue
        row = run.life.store.job(job)
        if row is None:
            if "delete" not in run.tried.get(job, ()):
                problems.append(f"job {job} is gone, and nobody deleted it")
        else:
            problems += [f"job {job}: {problem}" for problem in _of_job(run, row)]
    return problems


def _left_over(run: Run) -> Iterator[str]:
    assert run.life
    store, scheduler = run.life.store, run.life.scheduler
    for lease in store.leases():
        yield f"a lease is left: {lease.worker} on {lease.node}"
    for worker in run.world.all_running():
        yield f"worker {worker} still runs"
    saved = store.load_state()
    for job in saved.jobs:
        if job.state not in FINISHED:
            yield f"job {job.id} is stuck: {job.state}, {job.reason!r}"
    jobs = store.list_jobs(None, None, None, "id", False, 1000, 0)[1]
    if jobs > len(run.jobs):
        yield f"{jobs} jobs were made of {len(run.jobs)} submissions"
    if not saved.jobs:
        for ledger in scheduler.state.ledger:
            if ledger.free != ledger.node.capacity:
                yield f"node {ledger.name} is empty, and has {dict(ledger.free)} free of {dict(ledger.node.capacity)}"


def _of_job(run: Run, row: JobRow) -> Iterator[str]:
    assert run.life
    job, store = row.job, run.life.store
    attempts = store.attempts_of(job.id, 1, 1000)
    yield from _history(row, store.events_after(0, job.id, 10_000))
    for attempt in attempts:
        yield from _of_attempt(run, attempt)
    yield from _points(run, row)
    if job.state in FINISHED:
        yield from _ending(run, row, attempts)


def _history(row: JobRow, events: list[StoredEvent]) -> Iterator[str]:
    """Each change of state is one of the table, and the last one leads to where the job is."""
    state, ends = JobState.QUEUED, 0
    for stored in events:
        event = stored.event
        if event.state is None or event.kind == "submitted":
            continue
        if TRANSITIONS.get((state, Trigger(event.kind))) is not event.state:
            yield f"its history says {event.kind} while it was {state}"
        state = event.state
        ends += event.kind in _OVER
    if state is not row.job.state:
        yield f"its history ends as {state}, and it is {row.job.state}"
    if row.job.state in FINISHED and ends != 1:
        yield f"it ended {ends} times"


def _of_attempt(run: Run, attempt: Attempt) -> Iterator[str]:
    if attempt.ended_at is None:
        yield f"attempt {attempt.id} has not ended"
    elif not run.world.clock_lost and attempt.ended_at < attempt.created_at - 1.0:  # as clocks drift
        yield f"attempt {attempt.id} ended {attempt.created_at - attempt.ended_at:.2f} s before it began"
    for worker in attempt.workers:
        real = run.world.find(worker.id)
        if worker.outcome is None:
            yield f"worker {worker.id} has not ended"
        elif real is None:
            if worker.outcome.ending is not Ending.LOST:
                yield f"worker {worker.id} {worker.outcome.words()}, and was never started"
        elif real.end and worker.outcome != real.end.outcome and not run.world.was_given_up(worker.id):
            yield f"worker {worker.id} really {real.end.outcome.words()}; it is said: {worker.outcome.words()}"


def _points(run: Run, row: JobRow) -> Iterator[str]:
    """What its workers printed is in its curve, each line once.

    Some may be missing of a worker that was given up with its server, and where the story says that some was left out.
    """
    assert run.life
    store, job = run.life.store, row.job
    curve = [(point.step, point.value) for point in store.curve(job.id, job.spec.metric.name, 10_000)]
    skipped = any(stored.event.kind == "output_skipped" for stored in store.events_after(0, job.id, 10_000))
    for worker, output in run.world.output.items():
        if worker.job != job.id:
            continue
        found = [point for point in curve if int(point[1]) == worker.attempt]
        may_lack = skipped or run.world.was_given_up(worker)
        wanted = [point for point in output.points if point in found] if may_lack else output.points
        if found != wanted:
            yield f"worker {worker} printed {len(output.points)} points, and {len(found)} were stored"
        if not output.is_whole():
            yield f"the output of worker {worker} is not what it printed"


def _ending(run: Run, row: JobRow, attempts: list[Attempt]) -> Iterator[str]:
    job, tried = row.job, run.tried.get(row.job.id, set())
    last = attempts[-1] if attempts else None
    crew = [worker.outcome for worker in last.crew] if last else []
    failures = sum(1 for attempt in attempts if _failed(attempt))
    by_itself = last is not None and last.stop in (None, StopReason.FAILURE)
    if job.state is JobState.SUCCEEDED and not (crew and all(outcome and outcome.ok for outcome in crew)):
        yield f"it is said to have succeeded, and its workers {[o and o.words() for o in crew]}"
    elif job.state is JobState.CANCELLED and not tried & {"cancel", "delete"}:
        yield "it was cancelled by nobody"
    elif job.state is JobState.FAILED and by_itself and failures <= job.spec.max_restarts and not _waits(run, row):
        yield f"it failed after {failures} failures, and may be started again {job.spec.max_restarts} times"
    if failures > job.spec.max_restarts + 1:
        yield f"it was tried again after {failures - 1} failures"
    for attempt in attempts[:-1]:
        if _done(run, attempt):
            yield f"attempt {attempt.id} succeeded, and the job was started again"
    asked = run.told.get(job.id, {}).get("cancel")
    if asked is not None and last and last.created_at > asked + 0.1 and not run.world.clock_lost:
        yield f"attempt {last.id} began after its cancellation was taken"


def _failed(attempt: Attempt) -> bool:
    """Whether it counts as a failure of the job."""
    bad = [w for w in sorted(attempt.crew, key=lambda w: (w.ended_at or 0.0, w.id)) if w.outcome and not w.outcome.ok]
    if not bad or bad[0].outcome is None or not bad[0].outcome.counts_as_failure:
        return False
    if attempt.stop in PASSING:  # it may have failed before, when nobody knew yet
        return (bad[0].ended_at or 0.0) < (attempt.stop_asked_at or 0.0)
    return attempt.stop in (None, StopReason.FAILURE)


def _done(run: Run, attempt: Attempt) -> bool:
    """Whether all who counted had ended well before the service wanted them to end; a silent server tells nobody."""
    if any(run.world.find(worker.id) is None or run.world.was_given_up(worker.id) for worker in attempt.crew):
        return False
    asked = attempt.stop_asked_at
    early = all(worker.ended_at and (asked is None or worker.ended_at < asked) for worker in attempt.crew)
    return early and bool(attempt.crew) and all(worker.outcome and worker.outcome.ok for worker in attempt.crew)


def _waits(run: Run, row: JobRow) -> bool:
    """Whether it failed because of a job that it depends on."""
    return bool(row.job.spec.depends_on) and "depends on" in row.job.reason
