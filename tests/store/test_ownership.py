"""Owners of uploads, keys of submissions, caps and the audit log, on both databases."""

import threading
from dataclasses import replace

import pytest

from schedulearn.core.domain.errors import Conflict, InvalidSpec, NotFound, OverLimit
from schedulearn.core.domain.ids import AttemptId, JobId
from schedulearn.core.domain.spec import JobSpec
from schedulearn.core.domain.states import JobState
from schedulearn.store import Actor, AuditFilter, Once, acting
from schedulearn.store import jobs as jobs_of

AT = 1_700_000_000.25
SPEC = JobSpec("mnist", "true")
ANN = Actor("ann", 1, "10.0.0.7", AT)


@pytest.fixture
def ann(store):
    return store.add_user("ann", "user")


@pytest.fixture
def by_ann():
    token = acting.set(ANN)
    yield
    acting.reset(token)


# --- uploads


def test_an_upload_belongs_to_whoever_made_it(store):
    sha, other = "a" * 64, "b" * 64
    store.add_snapshot(sha, 1, "ann", 10, AT)
    store.add_snapshot(sha, 1, "ann", 10, AT + 1)  # once more changes nothing
    store.add_snapshot(sha, 2, "bob", 10, AT)
    assert [store.owns_snapshot(sha, owner) for owner in (1, 2, 3)] == [True, True, False]
    assert (store.has_owners(sha), store.has_owners(other)) == (True, False)
    store.drop_snapshots([sha, other])
    assert not store.has_owners(sha)


def test_uploads_are_bounded_for_each(store):
    for sha, size in (("a", 60), ("b", 40)):
        store.add_snapshot(sha * 64, 1, "ann", size, AT, 100)
    with pytest.raises(OverLimit, match="at most 100 B"):
        store.add_snapshot("c" * 64, 1, "ann", 1, AT, 100)
    with pytest.raises(OverLimit):
        store.check_snapshot_room(1, "c" * 64, 1, 100)
    store.check_snapshot_room(1, "c" * 64, 1, 0)
    store.add_snapshot("b" * 64, 1, "ann", 40, AT, 100)  # it is counted once
    store.add_snapshot("c" * 64, 2, "bob", 100, AT, 100)
    assert not store.owns_snapshot("c" * 64, 1)


# --- keys


def test_a_key_makes_one_job(store, ann):
    once = Once(ann.id, "key", "d" * 64)
    assert store.submitted(once) is None
    first = store.add_job(SPEC, "ann", AT, "", ann.id, once)
    assert store.add_job(SPEC, "ann", AT, "", ann.id, once) == store.submitted(once) == first
    assert store.list_jobs()[1] == 1
    assert len(store.requests_after(0)) == 1
    for call in (store.submitted, lambda wrong: store.add_job(SPEC, "ann", AT, "", ann.id, wrong)):
        with pytest.raises(InvalidSpec, match=f"job {first}") as error:
            call(once._replace(digest="e" * 64))
        assert error.value.field == "Idempotency-Key"
    assert store.add_job(SPEC, "ann", AT, "", ann.id, once._replace(key="another")) != first


def test_a_key_at_the_same_time_makes_one_job(store, ann):
    once, found, start = Once(ann.id, "key", "d" * 64), [], threading.Barrier(8)

    def submit():
        start.wait(60)
        found.append(store.add_job(SPEC, "ann", AT, "", ann.id, once))

    threads = [threading.Thread(target=submit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 8
    assert len(set(found)) == store.list_jobs()[1] == 1


def test_old_keys_are_forgotten(store, ann):
    old, new = Once(ann.id, "old", "d" * 64), Once(ann.id, "new", "d" * 64)
    store.add_job(SPEC, "ann", AT, "", ann.id, old)
    store.add_job(SPEC, "ann", AT + 10, "", ann.id, new)
    store.drop_submissions(AT + 10)
    assert store.submitted(old) is None
    assert store.submitted(new) is not None


# --- caps


def test_unfinished_jobs_of_one_user_are_bounded(store, ann, make, monkeypatch):
    monkeypatch.setattr(jobs_of, "_COUNT_EVERY", 3)
    for _ in range(7):
        store.add_job(SPEC, "ann", AT, "", ann.id, most=7)
    with pytest.raises(OverLimit, match="7 unfinished jobs"):
        store.add_job(SPEC, "ann", AT, "", ann.id, most=7)
    assert store.list_jobs()[1] == 7
    done = store.job(1).job
    done.state = JobState.FAILED
    make.save(jobs=[done])
    store.add_job(SPEC, "ann", AT, "", ann.id, most=7)
    with pytest.raises(OverLimit):
        store.add_job(SPEC, "ann", AT, "", ann.id, most=7)
    store.add_job(SPEC, "ann", AT, "", ann.id)


def test_a_long_queue_is_not_counted_at_each_submission(store, ann, statements):
    """Submitting the last job of many costs what the first did."""
    for _ in range(50):
        store.add_job(SPEC, "ann", AT, "", ann.id, most=1000)
    assert sum("count(" in statement for statement in statements) == 1


def test_tokens_of_one_user_are_bounded(store, ann):
    for number in range(3):
        store.add_token("ann", "", f"{number}" * 64, AT, most=3)
    with pytest.raises(OverLimit, match="ann has 3 tokens"):
        store.add_token("ann", "", "x" * 64, AT, most=3)
    store.add_token("bob", "", "x" * 64, AT, most=3)


# --- names and ids


def test_jobs_are_submitted_by_whoever_has_the_id(store, ann):
    store.remove_user("ann")
    second = store.add_user("ann", "user")
    with pytest.raises(NotFound, match="any more"):
        store.add_job(SPEC, "ann", AT, "", ann.id)
    job = store.add_job(SPEC, "ann", AT, "", second.id)
    assert store.user_of(job) == second
    assert store.owners_of([job, 99]) == {job: second.id}


def test_who_has_unfinished_jobs_is_removed_only_on_purpose(store, ann):
    job = store.add_job(SPEC, "ann", AT, "", ann.id)
    with pytest.raises(Conflict, match=r"unfinished jobs \(1\)"):
        store.remove_user("ann", idle=True)
    store.add_snapshot("a" * 64, ann.id, "ann", 1, AT)
    store.remove_user("ann")
    assert store.user_of(job) is None
    assert not store.has_owners("a" * 64)


# --- the audit log


def test_acts_are_written_down_where_somebody_acts(store, by_ann):
    store.add_user("bob", "user")
    store.add_token("bob", "laptop", "a" * 64, AT)
    store.add_token("bob", "attempt", "b" * 64, AT, AttemptId(JobId(1), 1))  # jobs come and go without a line
    store.note_act("job.exec", "job 3", "bob", program="ps")
    found = store.audit(AuditFilter(), 10)
    assert [(e.action, e.object, e.owner) for e in found] == [
        ("job.exec", "job 3", "bob"),
        ("token.create", "token 1", "bob"),
        ("user.add", "user bob", "bob"),
    ]
    assert {(e.actor, e.actor_id, e.origin, e.at, e.outcome) for e in found} == {("ann", 1, "10.0.0.7", AT, "done")}
    assert found[0].data == {"program": "ps"}


def test_what_the_service_does_by_itself_is_not(store):
    store.add_user("bob", "user")
    store.note_act("job.exec", "job 3")
    assert store.audit(AuditFilter(), 10) == []


def test_an_act_that_fails_leaves_nothing(store, by_ann):
    store.add_user("bob", "user")
    for call in (lambda: store.add_user("bob", "user"), lambda: store.update_user("eve", role="admin"),
                 lambda: store.remove_user("eve"), lambda: store.revoke_token(99)):  # fmt: skip
        with pytest.raises((Conflict, NotFound)):
            call()
    assert len(store.audit(AuditFilter(), 10)) == 1


def test_requests_are_told_without_what_is_long(store, ann, by_ann):
    job = store.add_job(SPEC, "ann", AT, "", ann.id)
    store.add_request("update", job, {"priority": 80}, "ann", AT)
    store.add_request("policy", None, {"preset": "fifo", "stages": {}, "params": {"long": [1] * 1000}}, "ann", AT)
    store.add_request("node_add", None, {"name": "gpu2", "address": "ssh://gpu2", "labels": []}, "ann", AT)
    told = [(e.action, e.object, e.owner, e.data) for e in store.audit(AuditFilter(), 10)]
    assert told == [
        ("node.add", "node gpu2", "", {"address": "ssh://gpu2", "labels": []}),
        ("policy.set", "policy", "", {"preset": "fifo", "params": ["long"]}),
        ("job.update", f"job {job}", "ann", {"priority": 80}),
        ("job.submit", f"job {job}", "ann", {"name": "mnist"}),
    ]


def test_pages_filters_and_age(store):
    for number in range(6):
        actor = replace(ANN, name=("ann", "bob")[number % 2], at=AT + number)
        store.add_audit(actor, ("job.cancel", "jobs", "token.create")[number % 3], f"job {number}", "cy", "refused: no")
    assert [e.object for e in store.audit(AuditFilter(), 2)] == ["job 5", "job 4"]
    fourth = store.audit(AuditFilter(), 2)[-1].serial
    assert [e.object for e in store.audit(AuditFilter(before=fourth), 2)] == ["job 3", "job 2"]
    assert [e.object for e in store.audit(AuditFilter(actor="bob"), 9)] == ["job 5", "job 3", "job 1"]
    assert [e.object for e in store.audit(AuditFilter(action="job"), 9)] == ["job 3", "job 0"]
    assert store.audit(AuditFilter(action="%"), 9) == []
    assert [e.object for e in store.audit(AuditFilter(since=AT + 1, until=AT + 3), 9)] == ["job 2", "job 1"]
    assert len(store.audit(AuditFilter(owner="cy", object="job 2"), 9)) == 1
    assert store.drop_audit(AT + 4) == 4
    assert [e.object for e in store.audit(AuditFilter(), 9)] == ["job 5", "job 4"]
