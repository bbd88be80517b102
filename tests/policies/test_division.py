"""Cores divided among containers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.core.policies.share.division import demands, floors, give_out_rest, keep_room, max_min

_sizes = st.lists(st.tuples(st.floats(0, 4), st.floats(0.1, 16)), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("capacity", "wants", "shares"),
    [
        (4, [], []),
        (4, [1, 2], [1, 2]),
        (4, [4, 4], [2, 2]),
        (4, [1, 4, 4], [1, 1.5, 1.5]),
        (1, [0.2, 1, 1], [0.2, 0.4, 0.4]),
    ],
)
def test_max_min(capacity: float, wants: list[float], shares: list[float]) -> None:
    assert max_min(capacity, wants) == pytest.approx(shares)


@given(st.floats(0.1, 64), st.lists(st.floats(0, 16), max_size=20))
def test_max_min_gives_out_all_it_can_and_nobody_more_than_it_wants(capacity: float, wants: list[float]) -> None:
    shares = max_min(capacity, wants)
    assert sum(shares) == pytest.approx(min(capacity, sum(wants)))
    assert all(share <= want + 1e-9 for share, want in zip(shares, wants, strict=True))
    unmet = [share for share, want in zip(shares, wants, strict=True) if share < want - 1e-9]
    assert all(share == pytest.approx(max(shares)) for share in unmet)


@given(_sizes, st.floats(0.01, 1))
def test_floors_fit_if_the_leases_do(sizes: list[tuple[float, float]], part: float) -> None:
    least = [low for low, _ in sizes]
    most = [low + more for low, more in sizes]
    capacity = sum(least) + 1
    found = floors(capacity, least, most, part / len(sizes))
    assert sum(found) <= capacity + 1e-6
    assert all(floor >= low - 1e-9 for floor, low in zip(found, least, strict=True))


@pytest.mark.parametrize(
    ("limits", "wants", "expected"),
    [
        ([0.25, 1.0], [1.0, 1.0], [0.25, 1.0]),  # nothing is left
        ([0.25, 1.0], [1.0, 0.2], [0.8, 1.0]),
        ([0.2, 0.2], [1.0, 1.0], [0.5, 0.5]),
        ([0.2, 0.2, 0.2], [1.0, 0.1, 1.0], [0.45, 0.2, 0.45]),
    ],
)
def test_what_limits_leave_unused_is_given_out(limits: list[float], wants: list[float], expected: list[float]) -> None:
    assert give_out_rest(1.0, limits, wants) == pytest.approx(expected)


@given(_sizes)
def test_each_can_get_its_least_if_that_fits(sizes: list[tuple[float, float]]) -> None:
    least = [low for low, _ in sizes]
    capacity = sum(least) + 0.5
    limits = keep_room(capacity, [low + more for low, more in sizes], least)
    assert all(share >= low - 1e-6 for share, low in zip(max_min(capacity, limits), least, strict=True))
    assert sum(max_min(capacity, limits)) == pytest.approx(min(capacity, sum(low + more for low, more in sizes)))


def test_limits_stay_where_everybody_gets_its_least_anyway() -> None:
    assert keep_room(4.0, [4.0, 0.5, 4.0], [1.0, 0.5, 0.0]) == [4.0, 0.5, 4.0]
    assert keep_room(4.0, [4.0, 4.0, 4.0], [3.0, 0.0, 0.0]) == pytest.approx([3.0, 0.5, 0.5])


@pytest.mark.parametrize(
    ("uses", "limits", "before", "expected"),
    [
        ([0.2, 0.8], [1.0, 1.0], [None, None], [0.2, None]),  # one leaves the other most of it
        ([0.5, 0.5], [1.0, 1.0], [None, None], [None, None]),  # equals
        ([0.25, 0.75], [0.25, 1.0], [None, None], [None, None]),  # the first is held back by its limit
        ([0.2, 0.3], [1.0, 1.0], [None, None], [0.2, 0.3]),  # half of the machine is idle: nobody wants more
        ([0.5, 0.5], [1.0, 0.5], [0.5, None], [0.5, None]),  # it was found to want no more, and does not
        ([0.53, 0.47], [1.0, 0.5], [0.5, None], [None, None]),  # until it does
    ],
)
def test_what_each_would_use(
    uses: list[float], limits: list[float], before: list[float | None], expected: list[float | None]
) -> None:
    assert demands(1.0, limits, uses, before) == [want if want is None else pytest.approx(want) for want in expected]
