"""Whom to tell, what waits, and how far the history was read: on both databases."""

import pytest

from schedulearn.core.domain.job import HistoryEvent
from schedulearn.core.domain.states import JobState
from schedulearn.store import NewNotice, open_store

AT = 1_700_000_000.25
HOOK = "https://hooks.example.org/ü"
SAID = {"id": "msg_1", "type": "test", "text": "a 'test' \N{SNOWMAN}", "data": {"user": "ann"}}


def end(make, state=JobState.SUCCEEDED):
    job = make.job()
    job.state, job.finished_at = state, AT + 1
    make.save(jobs=[job], events=[HistoryEvent(AT + 1, "end", "exit code 0", job.id, state=state)])
    return job.id


def test_addresses_and_a_secret_do_not_touch_each_other(store):
    assert store.subscription("ann").secret == ""
    assert store.keep_secret("ann", "one") == "one"
    store.set_addresses("ann", [HOOK, "failed:mailto:ann@example.org"], [HOOK])
    assert store.keep_secret("ann", "two") == "one", "the first stays unless it is to be replaced"
    kept = store.subscription("ann")
    assert (kept.addresses, kept.given, kept.secret) == ((HOOK, "failed:mailto:ann@example.org"), (HOOK,), "one")
    assert store.keep_secret("ann", "three", renew=True) == "three"
    assert store.subscription("ann").addresses == kept.addresses


def test_ends_are_found_once_and_from_the_start_on(make):
    end(make)
    make.store.follow_ends()
    assert make.store.new_ends()[0] == [], "what was over before"
    first, second = end(make), end(make, JobState.FAILED)
    make.store.follow_ends()  # at the next start: it goes on where it was
    found, looked = make.store.new_ends()
    assert [(stored.event.job, stored.event.state) for stored in found] == [
        (first, JobState.SUCCEEDED),
        (second, JobState.FAILED),
    ]
    (one,), part = make.store.new_ends(limit=1)
    assert (one.event.job, part) == (first, one.serial), "what was left out is not passed over"
    assert make.store.add_notices([NewNotice("ann", HOOK, SAID)], AT, looked) == 0
    assert make.store.new_ends() == ([], looked)
    [notice] = make.store.notices_of("ann", 10)
    assert (notice.address, notice.content, notice.created_at, notice.state) == (HOOK, SAID, AT, "waiting")


def test_the_first_that_is_due_of_each_user(store):
    store.add_notices([NewNotice(user, HOOK, SAID) for user in ("ann", "ann", "bob", "eve")], AT)
    assert store.due_notices(AT - 1, 10) == []
    due = store.due_notices(AT, 10, {"eve"})
    assert [(notice.user, notice.serial) for notice in due] == [("ann", 1), ("bob", 3)]
    store.notice_tried(1, "waiting", AT + 60.5, "no answer")
    store.notice_tried(3, "sent", AT, "")
    assert [notice.serial for notice in store.due_notices(AT, 10, {"eve"})] == [2]
    later = store.due_notices(AT + 61, 10)
    assert {(notice.user, notice.serial, notice.tries) for notice in later} == {("ann", 1, 1), ("eve", 4, 0)}
    assert store.notices_of("ann", 10)[1].problem == "no answer"


def test_what_waits_survives_and_goes_with_its_user(url):
    with open_store(url) as store:
        store.add_user("ann", "user")
        store.keep_secret("ann", "one")
        store.add_notices([NewNotice("ann", HOOK, SAID), NewNotice("bob", HOOK, SAID)], AT)
    with open_store(url) as store:
        assert len(store.due_notices(AT, 10)) == 2
        store.remove_user("ann")
        assert [notice.user for notice in store.due_notices(AT, 10)] == ["bob"]
        assert store.subscription("ann").secret == "", "who has this name next begins anew"


@pytest.mark.parametrize("days", [6, 8])
def test_only_what_is_over_is_forgotten(store, days):
    store.add_notices([NewNotice("ann", HOOK, SAID)] * 2, AT)
    store.notice_tried(1, "given up", AT, "gone")
    store.add_notices([], AT + days * 86400)
    assert [notice.serial for notice in store.notices_of("ann", 10)] == ([2, 1] if days == 6 else [2])
