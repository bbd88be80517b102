"""Users, tokens and settings."""

import pytest

from schedulearn.core.domain.errors import Conflict, NotFound
from schedulearn.core.domain.ids import AttemptId, JobId
from schedulearn.core.domain.spec import JobSpec
from schedulearn.store import TokenRow, UserRow

AT = 1_700_000_000.25
ATTEMPT = AttemptId(JobId(17), 2)


def test_users(store):
    bob = store.add_user("bob", "user", 1001, 1002, 60)
    ann = store.add_user("ann", "admin")
    assert bob == UserRow("bob", "user", 1001, 1002, 60, 1)
    assert store.users() == [ann, bob]
    assert store.user("bob") == bob
    assert store.user("eve") is None
    with pytest.raises(Conflict, match="bob"):
        store.add_user("bob", "admin")


def test_a_name_that_is_given_again_is_somebody_else(store):
    first = store.add_user("ann", "user")
    mine = store.add_job(JobSpec("a", "true"), "ann", AT, "")
    store.remove_user("ann")
    assert store.add_user("ann", "user").id != first.id
    assert store.job(mine).owner == first.id


def test_a_user_changes_only_in_what_is_given(store):
    store.add_user("bob", "user", 1001, 1002, 60)
    changed = store.update_user("bob", role="admin", max_priority=None)
    assert changed == store.user("bob") == UserRow("bob", "admin", 1001, 1002, None, 1)
    assert store.update_user("bob") == changed
    with pytest.raises(NotFound, match="eve"):
        store.update_user("eve", role="admin")


def test_a_removed_user_has_no_tokens_but_their_jobs_go_on(store):
    store.add_user("bob", "user")
    store.add_token("bob", "laptop", "aa", AT)
    store.add_token("bob", "job", "bb", AT, ATTEMPT)
    store.add_token("ann", "laptop", "cc", AT)
    store.remove_user("bob")
    assert store.user("bob") is None
    assert store.token_by_hash("aa") is None
    assert store.token_by_hash("bb") is not None
    assert store.token_by_hash("cc") is not None
    with pytest.raises(NotFound, match="bob"):
        store.remove_user("bob")


def test_tokens(store):
    first = store.add_token("ann", "laptop", "aa", AT)
    second = store.add_token("bob", "", "bb", AT)
    assert store.token_by_hash("aa") == TokenRow(first, "ann", "laptop", AT)
    assert store.token_by_hash("zz") is None
    assert [t.id for t in store.tokens()] == [first, second]
    assert [t.id for t in store.tokens("bob")] == [second]
    with pytest.raises(Conflict):
        store.add_token("eve", "same hash", "aa", AT)

    store.revoke_token(second)
    assert store.token_by_hash("bb") is None
    with pytest.raises(NotFound, match=str(second)):
        store.revoke_token(second)
    assert store.add_token("bob", "", "bb", AT) > second


def test_tokens_that_end(store):
    first, second = (store.add_token("ann", "page", hash, AT, expires_at=AT + 10) for hash in ("aa", "bb"))
    store.add_token("ann", "laptop", "cc", AT)
    store.add_token("ann", "attempt", "dd", AT, ATTEMPT)
    assert store.token_by_hash("aa") == TokenRow(first, "ann", "page", AT, None, AT + 10)
    store.renew_token(second, AT + 20)
    store.renew_token(4711, AT + 20)
    assert [(t.expires_at, t.has_ended(AT + 10)) for t in store.tokens()] == [
        (AT + 10, True),
        (AT + 20, False),
        (None, False),
    ]
    store.drop_ended_tokens(AT + 9)
    assert len(store.tokens()) == 3
    store.drop_ended_tokens(AT + 10)
    assert [store.token_by_hash(hash) is None for hash in ("aa", "bb", "cc", "dd")] == [True, False, False, False]


def test_tokens_of_attempts(store):
    other = AttemptId(JobId(17), 3)
    id = store.add_token("ann", "attempt", "aa", AT, ATTEMPT)
    store.add_token("ann", "attempt", "bb", AT, other)
    assert store.token_by_hash("aa") == TokenRow(id, "ann", "attempt", AT, ATTEMPT)
    assert store.tokens("ann") == []

    assert store.token_by_hash("bb").attempt == other


@pytest.mark.parametrize("value", [1, 0, False, "", [], {"a": [None, 1.5, "ü\0"]}])
def test_settings(store, value):
    assert store.setting("key", "default") == "default"
    store.set_setting("key", "old")
    store.set_setting("key", value)
    assert store.setting("key", "default") == value
    store.set_setting("key", None)
    assert store.setting("key", "default") == "default"
