"""Submitting jobs and reading them."""

import dataclasses

import pytest

from schedulearn.core.domain.ids import DeviceId, JobId, NodeName
from schedulearn.core.domain.job import Accrual, HistoryEvent, Job, Move, Placement
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.spec import JobSpec, Launcher, Metric, Preemptible, Target, WorkerResources, Workers
from schedulearn.core.domain.states import JobState, StopReason
from schedulearn.store import Point, StoredEvent, WorkerPlacement

AT = 1_700_000_000.25
FULL = JobSpec(
    "näme ☃ \U0001f600", ("python", "train.py"), "image", ("a",), "/w", "abc", ("/data",), {"A": "1", "B": "\0\udc80"},
    Launcher.TORCHRUN, Workers(1, 2, 4), WorkerResources(2, "A100", 0.5, 4.0, 2**40, 1), 1000, (32, 64), 70,
    AT + 100, 3600.5, 3, 12.5, Preemptible.NO, (JobId(1),), Metric("acc", "max", "x"), Target(0.5, "stop"), ("mail",),
)  # fmt: skip


MOVE = Move(
    AT, (NodeName("a"), NodeName("b")), (Placement(NodeName("c"), (DeviceId("GPU-1"),)), Placement(NodeName("c")))
)


def test_submitting_writes_the_job_its_first_event_and_a_request(store):
    id = store.add_job(FULL, "ann", AT, "submitted by ann")

    expected = Job(id, FULL, "ann", AT, priority=70, deadline=AT + 100, time_limit=3600.5, queued_at=AT)
    row = store.job(id)
    assert row.job == expected
    assert (row.attempts, row.placement, row.progress) == (0, (), None)
    event = HistoryEvent(AT, "submitted", "submitted by ann", id, state=JobState.QUEUED, data={"name": FULL.name})
    assert store.events_after(0) == [StoredEvent(1, event)]
    (request,) = store.requests_after(0)
    assert (request.kind, request.job, request.by, request.at) == ("submit", id, "ann", AT)


def test_every_field_of_a_job_survives(make):
    job = make.job()
    changed = Job(
        job.id, job.spec, "ann", AT, JobState.STOPPING, "cause", 99, AT + 5, 7.25, 0.5, AT + 6, 3, 1, 2, 4, 12.5, MOVE,
        5, AT + 1, AT + 2, AT + 3, AT + 4, Accrual(1.5, AT, 1.0), Accrual(0.7, AT, 0.5),
        Accrual(0.1 + 0.2, AT + 1, 8.0), 7, StopReason.PREEMPT,
        Outcome(Ending.OUT_OF_MEMORY, 1, 9, 2**31, "detail"), True, [1, 2.5],
    )  # fmt: skip
    for field in dataclasses.fields(Job):
        if field.init and field.name not in ("id", "spec", "user", "submitted_at"):
            assert getattr(changed, field.name) != getattr(job, field.name), f"{field.name} is not tried here"

    make.save(jobs=[changed])

    assert make.store.job(job.id).job == changed


def test_attempts_beyond_all_numbers(store):
    assert store.attempts_of(JobId(1), 2**53, 2**54) == []
    assert store.attempts_of(JobId(1), 1, 2**54) == []


def test_no_such_job(store):
    assert store.job(JobId(4711)) is None
    assert store.attempts_of(JobId(4711)) == []


def test_text_that_a_database_would_refuse_is_stored_all_the_same(make):
    job = make.job(name="bad \0 and \udc80", user="ann")
    job.reason = "nul \0"
    make.save(jobs=[job], events=[HistoryEvent(AT, "exited", "half \ud800", job.id, data={"text": "\0\ud800"})])

    assert make.store.job(job.id).job.reason == "nul \ufffd"
    assert make.store.events_after(1)[0].event.data == {"text": "\0\ud800"}


def test_numbers_beyond_all_bounds_are_stored_all_the_same(make):
    job = make.job(deadline=1e300, time_limit=float("inf"))
    assert job.deadline > 1e12
    assert job.time_limit > 1e12


def test_ids_are_not_used_again_after_a_delete(make):
    first, second = make.job(), make.job()
    make.save(forgotten=[first.id, second.id], requests_done=[r.serial for r in make.store.requests_after(0)])

    assert make.job().id > second.id
    assert make.store.requests_after(0)[0].serial > 2


def test_filter(make):
    queued, running = make.job(name="a", user="ann"), make.running(name="b", user="bob")
    done = make.finished(name="a", user="bob")

    def ids(**wanted):
        rows, total = make.store.list_jobs(**wanted)
        assert total == len(rows)
        return [row.job.id for row in rows]

    assert ids() == ids(states=[]) == [queued.id, running.id, done.id]
    assert ids(states=[JobState.QUEUED]) == [queued.id]
    assert ids(states={JobState.QUEUED, JobState.SUCCEEDED}) == [queued.id, done.id]
    assert ids(user="bob") == [running.id, done.id]
    assert ids(name="a", user="bob") == [done.id]
    assert ids(name="A") == []


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("sort", ["id", "priority", "submitted_at", "name", "user", "state"])
def test_sort_and_page(make, sort, descending):
    for n in range(9):
        make.job(name=f"n{n % 3}", user=f"u{n % 2}", at=AT - n % 4, priority=n % 3)

    keys = {"name": lambda j: (j.spec.name, j.id), "id": lambda j: j.id}
    key = keys.get(sort, lambda j: (getattr(j, sort), j.id))
    every = [row.job for row in make.store.list_jobs()[0]]
    pages = [make.store.list_jobs(sort=sort, descending=descending, limit=4, offset=n) for n in (0, 4, 8, 12)]

    assert [row.job for rows, _ in pages for row in rows] == sorted(every, key=key, reverse=descending)
    assert {total for _, total in pages} == {9}


def test_a_list_needs_the_same_few_statements_however_long_it_is(make, statements):
    def count():
        statements.clear()
        rows, _ = make.store.list_jobs(limit=1000)
        assert all(row.placement and row.progress for row in rows)
        return len(statements)

    def one():
        job = make.running()
        make.store.add_points(job.id, 1, 0, "report", [Point(1, AT, 1, "loss", 0.5)])

    one()
    few = count()
    for _ in range(30):
        one()
    assert count() == few <= 4


def test_placement_is_what_is_leased_now(make):
    job = make.running("gpu0", "gpu1", workers=2)
    local = NodeName("local")
    expected = (WorkerPlacement(0, local, (DeviceId("gpu0"), DeviceId("gpu1"))), WorkerPlacement(1, local, ()))
    assert make.store.job(job.id).placement == make.store.list_jobs()[0][0].placement == expected

    make.save(leases_ended=[lease.worker for lease in make.store.leases()])
    assert make.store.job(job.id).placement == ()


def test_progress_is_that_of_the_metric_of_the_spec(make):
    job = make.running(workers=2, metric=Metric("acc", "max"))
    other = make.running(metric=Metric("loss"))
    for rank in (1, 0):
        values = [Point(n, AT + n, n * 10, name, n + rank) for n in range(5) for name in ("acc", "loss")]
        make.store.add_points(job.id, 1, rank, "report", values)

    progress = make.store.job(job.id).progress
    assert (progress.step, progress.metric, progress.value, progress.updated_at) == (40, "acc", 4, AT + 4)
    assert progress.spark == (0, 1, 2, 3, 4)
    assert [row.progress for row in make.store.list_jobs()[0]] == [progress, None]
    assert make.store.job(other.id).progress is None


def test_counts(make):
    make.job(), make.job(), make.finished()
    counts = make.store.count_by_state()
    assert set(counts) == set(JobState)
    assert {state: n for state, n in counts.items() if n} == {JobState.QUEUED: 2, JobState.SUCCEEDED: 1}


def test_the_last_job_that_succeeded(make):
    assert make.store.last_succeeded() is None
    made = []
    for state, at in (("succeeded", AT + 1), ("succeeded", AT + 3), ("failed", AT + 9), ("succeeded", AT + 2)):
        job = make.job()
        job.state, job.finished_at = JobState(state), at
        make.save(jobs=[job])
        made.append(job)
    assert make.store.last_succeeded() == (AT + 3, made[1].id), "by when it ended, not by its number"


def test_events_are_followed_by_serial(make):
    a, b = make.job(), make.job()
    make.save(events=[HistoryEvent(AT - 99, "state", "clock set back", b.id, 1, NodeName("local"), JobState.RUNNING)])

    events = make.store.events_after(0)
    assert [e.serial for e in events] == [1, 2, 3]
    assert make.store.last_event_serial() == 3
    assert [e.event.job for e in make.store.events_after(1)] == [b.id, b.id]
    assert [e.serial for e in make.store.events_after(0, job=a.id)] == [1]
    assert [e.serial for e in make.store.events_after(0, limit=2)] == [1, 2]
    assert events[2].event.node == "local"
    assert events[2].event.state is JobState.RUNNING


def test_nothing_happened_yet(store):
    assert store.last_event_serial() == 0
    assert store.events_after(0) == []
    assert store.list_jobs() == ([], 0)


def test_requests_keep_their_order_and_data(make):
    job = make.job()
    serials = [make.store.add_request("update", job.id, {"priority": n, "deadline": None}, "ann", AT) for n in range(3)]
    make.store.add_request("policy", None, {}, "root", AT)

    assert serials == sorted(serials)
    found = make.store.requests_after(serials[0])
    assert [(r.kind, r.job, r.data.get("priority")) for r in found] == [
        ("update", job.id, 1), ("update", job.id, 2), ("policy", None, None),
    ]  # fmt: skip
    make.save(requests_done=serials)
    assert [r.kind for r in make.store.requests_after(0)] == ["submit", "policy"]


def test_numbers_up_to_one_are_never_given_out(store):
    assert store.last_job_number() == 0
    assert store.advance_job_numbers(17)
    assert not store.advance_job_numbers(17)
    assert not store.advance_job_numbers(3)
    assert store.add_job(FULL, "ann", AT, "submitted by ann") == 18
    assert store.last_job_number() == 18
    assert not store.advance_job_numbers(18)
