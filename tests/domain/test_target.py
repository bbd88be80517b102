"""When a training counts as good enough."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.core.domain.learning import LearningCurve
from schedulearn.core.domain.target import LATEST, reached


@pytest.mark.parametrize(
    ("values", "goal", "target", "value"),
    [
        ([], "min", 0.5, None),
        ([0.1, 0.1], "min", 0.5, None),  # too few to tell
        ([0.9, 0.5, 0.4], "min", 0.5, 0.5),
        ([0.9, 0.6, 0.4], "min", 0.5, None),
        ([0.1, 0.1, 0.1, 0.9, 0.8, 0.1], "min", 0.5, None),  # only the last three count
        ([0.4, math.nan, 0.3], "min", 0.5, 0.4),
        ([math.nan, math.nan, 0.3], "min", 0.5, None),
        ([math.nan, math.nan, math.nan], "max", -math.inf, None),
        ([0.8, 0.92, 0.93], "max", 0.92, 0.92),
        ([0.93, 0.91, 0.9], "max", 0.92, None),
    ],
)
def test_two_of_the_last_three_values(values: list[float], goal: str, target: float, value: float | None) -> None:
    assert reached(values, goal, target) == value


@given(st.lists(st.floats(0, 1), min_size=3), st.floats(), st.integers(0, 2))
def test_one_value_decides_nothing(values: list[float], lucky: float, place: int) -> None:
    """While all others are above the target, whatever one of them is."""
    values[-1 - place] = lucky
    assert reached(values, "min", -0.1) is None
    assert reached([-value for value in values], "max", 0.1) is None


@given(st.lists(st.floats(-100, 100), min_size=LATEST), st.floats(-100, 100))
def test_a_higher_metric_is_a_lower_one_turned_round(values: list[float], target: float) -> None:
    value = reached(values, "min", target)
    assert reached([-each for each in values], "max", -target) == (None if value is None else -value)


def test_a_curve_knows_where_it_reaches_a_target() -> None:
    curve = LearningCurve([(0.1, 0.9), (0.2, 0.2), (0.3, 0.6), (0.4, 0.5), (0.5, 0.4), (1.0, 0.1)])
    assert curve.reaches(0.5) == 4, "0.2 alone was not enough, but counts with 0.5"
    assert curve.part(4) == 0.4
    assert curve.reaches(0.05) is None
