"""Learning curves: straight lines between known points, and nothing invented outside."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.core.domain.learning import LearningCurve

POINTS = [(0.1, 4.0), (0.5, 2.0), (1.0, 1.5)]


@pytest.mark.parametrize(
    ("progress", "value"),
    [(0.0, 4.0), (0.1, 4.0), (0.3, 3.0), (0.5, 2.0), (0.75, 1.75), (1.0, 1.5), (1.2, 1.5)],
)
def test_values(progress: float, value: float) -> None:
    assert LearningCurve(POINTS).value(progress) == pytest.approx(value)


@pytest.mark.parametrize(("progress", "count"), [(0.0, 0), (0.1, 1), (0.49, 1), (0.5, 2), (1.0, 3)])
def test_what_was_reported_so_far(progress: float, count: int) -> None:
    curve = LearningCurve(POINTS)
    assert curve.passed(progress) == count
    assert curve.points(count) == POINTS[:count]
    assert curve.points() == POINTS


@pytest.mark.parametrize("points", [[], [(0.5, 1.0), (0.5, 2.0)], [(0.5, 1.0), (0.2, 2.0)]])
def test_what_is_no_curve(points: Any) -> None:
    with pytest.raises(ValueError, match="learning curve"):
        LearningCurve(points)


@given(st.dictionaries(st.floats(0, 1), st.floats(-1e6, 1e6), min_size=1), st.floats(0, 1))
def test_it_stays_between_its_neighbours(points: dict[float, float], progress: float) -> None:
    curve = LearningCurve(sorted(points.items()))
    near = [*curve.points()[max(0, curve.passed(progress) - 1) :][:2]]
    low, high = min(value for _, value in near), max(value for _, value in near)
    slack = 1e-9 * max(abs(low), abs(high), 1.0)
    assert low - slack <= curve.value(progress) <= high + slack
