"""When a loss curve flattens."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.estimate.loss import Flattening, predict_flat
from schedulearn.core.estimate.remaining import Estimate

Points = list[tuple[float, float]]


def curve(fall: Callable[[float], float], steps: int, noise: float = 0.0, every: int = 1, seed: int = 0) -> Points:
    rng = random.Random(seed)
    return [(float(k), 2 + 5 * fall(k) + 5 * noise * rng.gauss(0, 1)) for k in range(0, steps, every)]


def exponential(k: float) -> float:
    return math.exp(-k / 200)


def inverse(k: float) -> float:
    return 1 / (1 + k / 50)


# Twice as long gains f(z) − f(2z), of 1 − f(z) gained so far. With u = e^−z: u − u² = 0.02 · (1 − u), so u = 0.02 and
# z = ln 50. With f = 1/(1 + z): f(z) − f(2z) = z/((1 + z)(1 + 2z)) = 0.02 · z/(1 + z), so 1 + 2z = 50, z = 24.5.
FLAT: dict[Callable[[float], float], float] = {exponential: 200 * math.log(50), inverse: 50 * 24.5}


@pytest.mark.parametrize("fall", [exponential, inverse])
@pytest.mark.parametrize("steps", [400, 1000, 3000])
@pytest.mark.parametrize(("noise", "error"), [(0.0, 0.01), (0.01, 0.1)])
def test_found_by_hand(fall: Callable[[float], float], steps: int, noise: float, error: float) -> None:
    found = predict_flat(curve(fall, steps, noise))
    assert found is not None
    assert found.expected == pytest.approx(FLAT[fall], rel=error)
    assert found.low <= FLAT[fall] * (1 + error)
    assert found.high >= FLAT[fall] * (1 - error)
    assert found.source == "loss curve"


def test_tolerance_asks_for_flatter() -> None:
    points = curve(exponential, 1000)
    loose, strict = predict_flat(points, tolerance=0.1), predict_flat(points, tolerance=0.001)
    assert loose is not None
    assert strict is not None
    assert loose.expected == pytest.approx(200 * math.log(10), rel=0.01)
    assert strict.expected == pytest.approx(200 * math.log(1000), rel=0.01)


def test_noise_widens_the_range() -> None:
    spread = []
    for noise in (0.0, 0.05, 0.2):
        found = predict_flat(curve(exponential, 1000, noise))
        assert found is not None
        spread.append(found.high - found.low)
    assert spread == sorted(spread)


@pytest.mark.parametrize(
    "points",
    [
        pytest.param([], id="nothing"),
        pytest.param(curve(exponential, 7), id="too few points"),
        pytest.param([(1.0, float(v)) for v in range(50)], id="one step again and again"),
        pytest.param([(k, 3.0) for k in range(50)], id="it never moved"),
        pytest.param([(k, math.nan) for k in range(50)], id="nan alone"),
        pytest.param([(k, 10 - 0.1 * k) for k in range(50)], id="a straight line: no bend in sight"),
        pytest.param([(k, 2 - exponential(k)) for k in range(500)], id="it gets worse"),
        pytest.param([(k, random.Random(k).random()) for k in range(500)], id="mere noise"),
    ],
)
def test_too_little_to_go_by(points: Points) -> None:
    assert predict_flat(points) is None


def test_nan_inf_and_outliers_hardly_matter() -> None:
    spoilt = [
        (k, math.nan if k % 7 == 0 else math.inf if k % 11 == 0 else 1e6 if k % 37 == 0 else value)
        for k, value in curve(exponential, 1000)
    ]
    found = predict_flat(spoilt)
    assert found is not None
    assert found.expected == pytest.approx(FLAT[exponential], rel=0.05)


def test_steps_done_twice_after_a_restart_count_once() -> None:
    points = curve(exponential, 800)
    lost = [(float(k), 6.9) for k in range(300, 500)]  # an attempt that went wrong, done again from a checkpoint
    assert predict_flat([*points[:300], *lost, *points[300:]]) == predict_flat(points)


curves = st.builds(
    curve,
    st.sampled_from([exponential, inverse]),
    st.integers(20, 2000),
    st.sampled_from([0.0, 0.02, 0.1]),
    st.sampled_from([1, 3]),
    st.integers(0, 50),
)


def same(a: Estimate | None, b: Estimate | None) -> bool:
    if a is None or b is None:
        return a is b
    return [a.low, a.expected, a.high] == pytest.approx([b.low, b.expected, b.high], rel=1e-3)


@settings(deadline=None)
@given(curves, st.sampled_from([2.0**-10, 0.5, 8.0, 2.0**20]), st.sampled_from([-64.0, 0.0, 1.0, 256.0]))
def test_neither_scale_nor_shift_matters(points: Points, scale: float, shift: float) -> None:
    plain = predict_flat(points)
    assert same(predict_flat([(k, v * scale) for k, v in points]), plain)
    assert same(predict_flat([(k, v + shift) for k, v in points]), plain)
    assert same(predict_flat([(k, -v) for k, v in points], goal="max"), plain), "an accuracy that rises"


@settings(deadline=None)
@given(curves, st.sampled_from([0.5, 16.0]))
def test_the_unit_of_steps_does_not_matter(points: Points, scale: float) -> None:
    found = predict_flat(points)
    scaled = predict_flat([(k * scale, v) for k, v in points])
    assert same(found and found.times(scale), scaled)


junk = st.lists(st.tuples(st.floats(-1e9, 1e9), st.floats()), max_size=60)


@settings(deadline=None)
@given(st.just([]) | curves, junk, st.sampled_from(["min", "max"]), st.sampled_from([0.001, 0.02, 0.5]))
def test_whatever_comes_in_it_is_none_or_finite_and_ordered(
    points: Points, others: Points, goal: str, tolerance: float
) -> None:
    found = predict_flat([*points, *others], goal, tolerance)
    if found is not None:
        assert -math.inf < found.low <= found.expected <= found.high < math.inf


def test_a_curve_that_grows_is_fitted_again_only_now_and_then() -> None:
    points = curve(exponential, 2000, every=10)
    asked: list[int] = []

    def first(count: int) -> Points:
        asked.append(count)
        return points[:count]

    flattening = Flattening()
    found = [flattening.of("a", count, first, "min") for count in range(len(points) + 1)]
    assert found[:8] == [None] * 8
    assert asked[:5] == [8, 10, 12, 15, 18]
    assert len(asked) < 20
    assert found[-1] == predict_flat(points[: asked[-1]])
    assert found[-1] is not None
    assert found[-1].expected == pytest.approx(FLAT[exponential], rel=0.05)
    again = len(asked)
    assert flattening.of("a", 100, first, "min") == found[100], "the answer does not depend on who asked before"
    assert len(asked) == again
    flattening.of("b", 100, first, "min")
    assert len(asked) == again + 1, "another curve"
