"""Only one holder of a role at a time."""

import pytest

from schedulearn.core.domain.errors import RoleTaken

AT = 1_700_000_000.25


def test_a_role_is_taken_once(store):
    store.take_role("scheduler", "one", AT, 10)
    with pytest.raises(RoleTaken, match="held by one"):
        store.take_role("scheduler", "two", AT + 9, 10)
    store.take_role("api", "two", AT + 9, 10)


def test_it_is_free_when_the_lease_has_run_out(store):
    old = store.take_role("scheduler", "one", AT, 10)
    assert store.take_role("scheduler", "two", AT + 10, 10) > old


def test_renewing_keeps_it(store):
    fence = store.take_role("scheduler", "one", AT, 10)
    store.renew_role("scheduler", fence, AT + 8)
    with pytest.raises(RoleTaken):
        store.take_role("scheduler", "two", AT + 17, 10)


def test_a_lost_role_cannot_be_renewed(store):
    old = store.take_role("scheduler", "one", AT, 10)
    new = store.take_role("scheduler", "two", AT, 10, steal=True)
    assert new > old
    with pytest.raises(RoleTaken, match="taken by two"):
        store.renew_role("scheduler", old, AT)
    store.release_role("scheduler", old)  # of no effect
    store.renew_role("scheduler", new, AT + 1)


def test_a_released_role_is_free_at_once_and_its_number_is_not_used_again(store):
    fence = store.take_role("scheduler", "one", AT, 10)
    store.release_role("scheduler", fence)
    with pytest.raises(RoleTaken, match="given back"):
        store.renew_role("scheduler", fence, AT)
    assert store.take_role("scheduler", "two", AT, 10) > fence


def test_the_same_holder_takes_it_again_with_a_new_number(store):
    assert store.take_role("scheduler", "one", AT, 10) < store.take_role("scheduler", "one", AT + 1, 10)


def test_a_clock_set_back_does_not_keep_a_dead_holder_alive(store):
    store.take_role("scheduler", "dead", AT, 10)
    store.take_role("scheduler", "two", AT - 3600, 10)
