"""Who ran where and when."""

from schedulearn.core.domain.ids import DeviceId
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.states import JobState
from schedulearn.store import Span

AT = 1_700_000_000.25


def test_workers_by_the_time_they_ran(make):
    job = make.running("GPU-0", workers=2)
    attempt = make.attempt(job, 2)
    first, second = attempt.workers
    first.started_at, first.ended_at = AT + 10, AT + 20
    first.devices, first.outcome = (DeviceId("GPU-0"), DeviceId("ü")), Outcome(Ending.EXITED, 3)
    second.started_at = AT + 15
    make.save(attempts=[attempt])

    found = make.store.timeline(AT, AT + 100, 10)

    assert found.spans == [
        Span(second.id, second.node, (), AT + 15, None, "mnist", "ann", None, None),
        Span(first.id, first.node, first.devices, AT + 10, first.outcome, "mnist", "ann", None, AT + 20),
    ]
    assert (found.total, found.first_at) == (2, AT)
    assert make.store.timeline(AT, AT + 10, 10).spans == []
    assert [span.worker for span in make.store.timeline(AT + 21, AT + 22, 10).spans] == [second.id]
    assert make.store.timeline(AT, AT + 100, 1).total == 2


def test_an_attempt_that_is_over_has_no_running_workers(make):
    job = make.running()
    attempt = make.attempt(job)
    attempt.workers[0].started_at, attempt.ended_at = AT + 10, AT + 30
    job.state, job.finished_at = JobState.FAILED, AT + 30
    make.save(jobs=[job], attempts=[attempt])

    assert [span.until for span in make.store.timeline(AT, AT + 100, 10).spans] == [AT + 30]
    assert make.store.timeline(AT + 31, AT + 100, 10).spans == []


def test_jobs_that_were_over_before_are_not_looked_at(make, statements):
    make.store.timeline(AT, AT + 100, 10)
    if make.store._db.path is None:
        return  # PostgreSQL decides by how much there is
    with make.store._db.read() as connection:
        for statement in [text for text in statements if "workers" in text]:
            given = (AT,) * statement.count("?")
            plan = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", given)]
            assert not [step for step in plan if step.startswith("SCAN")], plan
