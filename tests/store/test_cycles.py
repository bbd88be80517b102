"""What the scheduler writes in a cycle and finds after a restart."""

import signal
from dataclasses import fields, replace

import pytest
import sqlalchemy as sa

from schedulearn.core.domain.errors import Conflict, RoleTaken
from schedulearn.core.domain.ids import AttemptId, DeviceId, NodeName, WorkerId
from schedulearn.core.domain.job import Attempt, HistoryEvent, Lease, Worker
from schedulearn.core.domain.node import Device, Node, NodeState
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.spec import Workers
from schedulearn.core.domain.states import JobState, StopReason
from schedulearn.store import Cycle, Found, Point, SavedState, open_store

AT = 1_700_000_000.25
LOCAL = NodeName("local")
NODE = Node(
    LOCAL, "docker", Resources(cpus=8, memory=2**40, gpus=2), Resources(cpus=0.5), 1.5,
    (Device(DeviceId("b"), "gpus", "A100", 2**36, "pid 7"), Device(DeviceId("a"))),
    NodeState.DRAINING, (("rack", "1"),),
)  # fmt: skip


def test_an_empty_store_has_an_empty_state(store):
    assert store.load_state() == SavedState([], [], [], [], {}, None)


def test_the_state_comes_back_as_it_was_saved(make, url):
    job = make.job()
    job.state, job.attempt = JobState.STOPPING, 1
    first, second = WorkerId(job.id, 1, 0), WorkerId(job.id, 1, 1)
    gone = Worker(second, LOCAL, (DeviceId("b"),), AT + 1, AT + 2, Outcome(Ending.SIGNALLED, None, 9))
    attempt = Attempt(
        AttemptId(job.id, 1), AT, [Worker(first, LOCAL, (), AT + 1), gone], StopReason.FAILURE, AT + 3, None
    )
    lease = Lease(first, LOCAL, Resources(cpus=0.5, gpus=1), (DeviceId("b"),))
    memory = {"cursor": 3, "marks": [1, 2.5, None, "x"]}
    make.save(jobs=[job], attempts=[attempt], leases_added=[lease], nodes=[NODE], memory=memory)
    make.store.set_setting("policy", {"preset": "fifo"})

    with open_store(url) as again:
        assert again.load_state() == SavedState([job], [attempt], [lease], [NODE], memory, {"preset": "fifo"})


def test_workers_that_come_and_go_are_kept_with_each_change(make, url):
    job = make.running(workers=2)
    attempt = make.attempt(job, 3)
    attempt.generation = 1
    attempt.workers[0].left_at = AT + 2
    attempt.workers[2].joined = 1
    job.spec = replace(job.spec, workers=Workers(2, 3, 6))
    joined = make.lease(attempt.workers[2].id)
    make.save(jobs=[job], attempts=[attempt], leases_added=[joined])
    attempt.generation, attempt.workers[1].left_at, attempt.workers[1].ended_at = 2, AT + 3, AT + 3
    make.save(attempts=[attempt])
    with open_store(url) as again:
        (loaded,) = again.load_state().attempts
        row = again.job(job.id)
        assert loaded == attempt
        assert (row.job.spec, row.job.shape.workers.max) == (job.spec, 6)
        assert [place.rank for place in row.placement] == [2], "who leaves keeps its lease, but does not count"
        assert len(again.leases()) == 3


def test_only_what_is_unfinished_or_awaited_is_loaded(make):
    done, awaited = make.finished(), make.finished(JobState.FAILED)
    waiting = make.job(depends_on=(awaited.id,))
    over = make.running()
    attempt = make.attempt(over)
    attempt.ended_at, over.state = AT + 5, JobState.QUEUED
    make.save(jobs=[over], attempts=[attempt])

    state = make.store.load_state()
    assert done.id not in {job.id for job in state.jobs}
    assert [job.id for job in state.jobs] == [awaited.id, waiting.id, over.id]
    assert state.attempts == []


def test_only_the_newest_attempt_is_loaded_but_all_are_listed(make):
    job = make.running()
    old = make.attempt(job)
    job.attempt = 2
    new = make.attempt(job, workers=3)
    make.save(jobs=[job], attempts=[new])

    assert make.store.load_state().attempts == [new]
    assert make.store.attempts_of(job.id) == [old, new]
    assert make.store.job(job.id).attempts == 2


def test_an_attempt_that_has_ended_loses_its_token(make):
    job = make.running()
    attempt = make.attempt(job)
    make.store.add_token("ann", "attempt", "aa", AT, attempt.id)
    make.store.add_token("ann", "attempt", "bb", AT, AttemptId(job.id, 2))
    make.save(attempts=[attempt])
    assert make.store.token_by_hash("aa")

    attempt.ended_at = AT + 5
    make.save(attempts=[attempt])
    assert make.store.token_by_hash("aa") is None
    assert make.store.token_by_hash("bb")


def test_only_what_has_happened_since_is_loaded(make):
    """Changed, finished and new jobs; one that nothing happened to is not even read."""
    _, changed, ended, _ = (make.job(name) for name in ("a", "b", "c", "d"))
    earlier = make.store.load_state()
    assert earlier.serial == make.store.last_event_serial()

    changed.priority, ended.state = 99, JobState.FAILED
    make.save(jobs=[changed, ended], events=[HistoryEvent(AT, "state", "", job.id) for job in (changed, ended)])
    new = make.job("new")
    make.running()

    later, whole = make.store.load_state(since=earlier.serial), make.store.load_state()
    known = {job.id for job in earlier.jobs}
    assert [(job.id, job.priority, job.state) for job in later.jobs[:3]] == [
        (changed.id, 99, changed.state),
        (ended.id, ended.priority, JobState.FAILED),
        (new.id, new.priority, new.state),
    ]
    assert {job.id for job in whole.jobs} == known - {ended.id} | {job.id for job in later.jobs} - {ended.id}
    assert replace(later, jobs=whole.jobs) == whole
    assert make.store.load_state(since=later.serial).jobs == []


def test_after_a_deletion_all_that_is_left_is_told(make):
    """The events of a deleted job are deleted, too: nobody else could tell that it is gone."""
    kept, deleted = make.job("a"), make.job("b")
    earlier = make.store.load_state()
    make.save(events=[HistoryEvent(AT, "deleted", "")], forgotten=[deleted.id])
    assert make.store.load_state(since=earlier.serial).unfinished == {kept.id}
    assert make.store.load_state(since=make.store.last_event_serial()).unfinished is None


def test_the_memory_stays_unless_it_is_given(make):
    make.save(memory={"a": 1})
    make.save()
    assert make.store.load_state().memory == {"a": 1}
    make.save(memory={})
    assert make.store.load_state().memory == {}


def test_nodes_are_replaced_with_their_devices(make):
    make.save(nodes=[NODE, Node(NodeName("other"))])
    changed = Node(LOCAL, devices=(Device(DeviceId("c")),))
    make.save(nodes=[changed])
    assert make.store.list_nodes() == [changed, Node(NodeName("other"))]


def test_every_field_of_a_node_survives(make):
    told = {"address": "ssh://gpu2", "default_image": "python", "engine": "X", "version": "Docker 28", "drain": True}
    full = replace(NODE, state=NodeState.LOST, lost_at=AT, problem="it is frozen", labels=(("room", "b12"),), **told)
    assert all(getattr(full, field.name) not in (None, "", ()) for field in fields(Node))
    make.save(nodes=[full])
    assert make.store.list_nodes() == [full]
    make.save(nodes=[NODE])
    assert make.store.list_nodes() == [NODE], "all of it can be taken back"


def test_nodes_are_removed_with_their_devices(make, contents):
    make.save(nodes=[NODE, Node(NodeName("other"))])
    make.save(nodes_removed=[NODE.name])
    assert make.store.list_nodes() == [Node(NodeName("other"))]
    assert contents()["devices"] == []


def test_a_cycle_does_not_undo_what_was_noted_of_a_workers_metrics(make):
    job = make.running()
    make.store.add_points(job.id, 1, 0, "report", [Point(5, AT, 1, "loss", 1.0)])
    make.store.add_found([Found(WorkerId(job.id, 1, 0), 77)])
    make.save(jobs=[job], attempts=[make.attempt(job)])

    assert make.store.add_points(job.id, 1, 0, "report", [Point(5, AT, 1, "loss", 1.0)]).new == 0
    assert make.store.output_place(WorkerId(job.id, 1, 0)).offset == 77


def test_a_device_is_never_leased_twice(make, contents):
    make.running("gpu0")
    other = make.job()
    other.state, other.attempt = JobState.STARTING, 1
    before = contents()

    with pytest.raises(Conflict):
        make.save(jobs=[other], leases_added=[make.lease(WorkerId(other.id, 1, 0), "gpu1", "gpu0")])
    assert contents() == before


def test_the_database_itself_refuses_the_second_lease(make):
    make.running("gpu0")
    other = make.running()
    row = {"d": "gpu0", "j": other.id}
    statement = "INSERT INTO lease_devices (device, job, attempt, rank) VALUES (:d, :j, 1, 0)"
    with pytest.raises(sa.exc.IntegrityError), make.store._db.engine.begin() as connection:
        connection.execute(sa.text(statement), row)


def test_a_worker_has_one_lease(make):
    job = make.running()
    with pytest.raises(Conflict):
        make.save(leases_added=[make.lease(WorkerId(job.id, 1, 0))])


def test_a_device_changes_hands_in_one_cycle(make):
    first, second = make.running("gpu0"), make.running()
    second.attempt = 2
    lease = make.lease(WorkerId(second.id, 2, 0), "gpu0")
    make.save(jobs=[second], leases_ended=[WorkerId(first.id, 1, 0)], leases_added=[lease])
    assert lease in make.store.leases()


def test_a_lease_that_ended_in_the_cycle_of_its_start_is_not_left_over(make):
    job = make.job()
    lease = make.lease(WorkerId(job.id, 1, 0), "gpu0")
    make.save(leases_added=[lease], leases_ended=[lease.worker])
    assert make.store.leases() == []


def test_a_lease_shrinks_and_grows_and_its_devices_change_hands(make):
    """As when a job is suspended for another, which takes its device in the same cycle."""
    first, second = make.running("gpu0"), make.running()
    worker = WorkerId(first.id, 1, 0)
    kept = Lease(worker, LOCAL, Resources(memory=1e9))
    taken = make.lease(WorkerId(second.id, 1, 0), "gpu0")
    make.save(leases_changed=[kept, taken])
    assert make.store.leases() == [kept, taken]

    given_up = make.lease(WorkerId(second.id, 1, 0))
    make.save(leases_changed=[make.lease(worker, "gpu1"), given_up, make.lease(worker, "gpu0")])
    assert make.store.leases() == [make.lease(worker, "gpu0"), given_up], "the last one counts"


def test_a_lease_that_shrinks_in_the_cycle_of_its_start(make):
    job = make.job()
    lease = make.lease(WorkerId(job.id, 1, 0), "gpu0")
    make.save(leases_added=[lease], leases_changed=[make.lease(lease.worker)])
    assert make.store.leases() == [make.lease(lease.worker)]


def test_a_lease_that_grew_and_ended_in_one_cycle_is_gone(make):
    job = make.running()
    grown = make.lease(WorkerId(job.id, 1, 0), "gpu0")
    make.save(leases_changed=[grown], leases_ended=[grown.worker])
    assert make.store.leases() == []


def test_a_lease_cannot_grow_into_a_device_of_another(make, contents):
    make.running("gpu0")
    job = make.running()
    before = contents()
    with pytest.raises(Conflict):
        make.save(leases_changed=[make.lease(WorkerId(job.id, 1, 0), "gpu0")])
    assert contents() == before


@pytest.mark.parametrize("how", ["stolen", "released", "never taken"])
def test_a_scheduler_that_lost_its_role_writes_nothing(store, contents, how):
    fence = store.take_role("scheduler", "old", AT, 10) if how != "never taken" else 1
    if how == "stolen":
        store.take_role("scheduler", "new", AT, 10, steal=True)
    if how == "released":
        store.release_role("scheduler", fence)
    before = contents()

    with pytest.raises(RoleTaken):
        store.save_cycle(Cycle(fence, events=[HistoryEvent(AT, "state", "too late")], memory={"late": True}))
    assert contents() == before


def test_a_forgotten_job_leaves_only_that_it_was_deleted(make, contents):
    job, other = make.running("gpu0"), make.running()
    for id in (job.id, other.id):
        make.store.add_points(id, 1, 0, "report", [Point(1, AT, 1, "loss", 1.0)])
        make.store.add_token("ann", "attempt", f"hash{id}", AT, AttemptId(id, 1))
    make.save(jobs=[job], forgotten=[job.id], events=[HistoryEvent(AT, "deleted", "deleted by ann", job.id)])

    assert make.store.job(job.id) is None
    assert [stored.event.kind for stored in make.store.events_after(0, job.id)] == ["deleted"]
    assert make.store.token_by_hash(f"hash{job.id}") is None
    left = contents()
    for table in ("jobs", "attempts", "workers", "leases", "metric_series", "metric_points", "tokens"):
        assert len(left[table]) == 1, table
    assert left["lease_devices"] == []
    assert make.store.job(other.id).progress.value == 1.0


def test_a_job_that_was_forgotten_does_not_come_back(make):
    job = make.running()
    make.save(jobs=[job], attempts=[make.attempt(job)], forgotten=[job.id])
    assert make.store.list_jobs() == ([], 0)


def test_a_cycle_with_few_changes_is_a_handful_of_statements(make, statements):
    job = make.running()
    serial = make.store.requests_after(0)[0].serial
    job.state, job.attempt = JobState.STARTING, 2
    attempt = make.attempt(job, workers=4)
    leases = [make.lease(worker.id, f"gpu{worker.id.rank}") for worker in attempt.workers]
    events = [HistoryEvent(AT, "state", "x", job.id)] * 5
    statements.clear()

    make.save(jobs=[job], attempts=[attempt], leases_added=leases, events=events, requests_done=[serial])
    assert len(statements) <= 8


def full_cycle(make):
    """A cycle that changes something in every table it can."""
    old, gone, job = make.running("gpu0"), make.running("gpu1"), make.job()
    job.state, job.attempt = JobState.STARTING, 1
    lease = make.lease(WorkerId(job.id, 1, 0), "gpu0")
    return Cycle(
        make.fence, [job], [make.attempt(job)], [lease], [WorkerId(old.id, 1, 0)], [NODE],
        [HistoryEvent(AT, "deleted", "x", gone.id)], [gone.id], [1, 2, 3], {"cursor": 1},
    )  # fmt: skip


def test_a_cycle_that_fails_at_any_statement_changes_nothing(make, contents, statements):
    cycle = full_cycle(make)
    before = contents()
    engine = make.store._db.engine
    fail_at = 0

    class Broken(Exception):
        pass

    @sa.event.listens_for(engine, "after_cursor_execute")
    def _fail(*_):
        if len(statements) > fail_at:
            raise Broken

    broken = 0
    while True:
        statements.clear()
        try:
            make.store.save_cycle(cycle)
            break
        except Broken:
            broken += 1
        assert contents() == before
        fail_at += 1
    assert broken > 8
    assert contents() != before


KILLED = """
import os, signal, sys
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import HistoryEvent
from schedulearn.store import Cycle, cycles, open_store

cycles._forget = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
store = open_store(sys.argv[1])
job = store.job(JobId(1)).job
job.reason = "half-written"
store.save_cycle(Cycle(int(sys.argv[2]), [job], events=[HistoryEvent(0.0, "state", "x", job.id)], memory={"a": 1}))
"""


def test_a_process_killed_in_the_middle_of_a_cycle_leaves_nothing_half_written(make, url, contents, run_python):
    make.job()
    before = contents()
    process = run_python(KILLED, url, make.fence)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, errors

    assert contents() == before
    make.save(events=[HistoryEvent(AT, "state", "the next one writes")])
