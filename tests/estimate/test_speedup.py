"""Speed-up curves from measured step times."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.domain.speedup import SpeedUp, assumed_speedup
from schedulearn.core.estimate.speedup import fit_speedup, fit_step_time

NAN, INF = math.nan, math.inf


def values(curve: SpeedUp) -> list[float]:
    return [round(v, 4) for v in curve.values[1:]]


@pytest.mark.parametrize(
    ("times", "most", "expected"),
    [
        pytest.param({}, 3, [1, 1.9048, 2.7273], id="nothing measured: n / (1 + 0.05 · (n − 1))"),
        pytest.param({1: [5.0]}, 3, [1, 1.9048, 1.9048], id="one size: assumed up to twice that"),
        pytest.param({2: [5.0]}, 4, [1, 2, 2.8636, 3.6522], id="1 never ran: s(2) = 2, and on as assumed"),
        pytest.param({1: [8.0], 2: [5.0]}, 8, [1, 1.6, 2, 2.2857] + [2.2857] * 4, id="two sizes: T = 2 + 6/n"),
        pytest.param({1: [8], 2: [4], 4: [2]}, 10, [1, 2, 3, 4, 5, 6, 7, 8, 8, 8], id="perfect; flat beyond 2 × 4"),
        pytest.param({2: [6.0], 4: [3.0]}, 5, [1, 2, 3, 4, 5], id="linear below the smallest size measured"),
        pytest.param({1: [4], 2: [1]}, 4, [1, 2, 3, 4], id="faster than linear is not believed"),
        pytest.param({1: [4, 4, 4, 900], 2: [2, 2, 0.001]}, 2, [1, 2], id="outliers: the median counts"),
        pytest.param({1: [0, -3, NAN, INF, 4], 2: [2], 0: [7], 3: []}, 2, [1, 2], id="impossible times are ignored"),
        pytest.param({1: [0.0]}, 2, [1, 1.9048], id="only impossible times: nothing measured"),
        pytest.param({1: [1], 2: [2], 4: [4]}, 4, [1, 0.5, 0.3333, 0.25], id="T = n: more workers make it slower"),
        pytest.param({4: [1.0]}, 2, [1, 2], id="asked for less than was measured"),
        pytest.param({1: [1.0]}, 0, [1], id="at least s(1)"),
    ],
)
def test_table(times: dict[int, list[float]], most: int, expected: list[float]) -> None:
    assert values(fit_speedup(times, most)) == expected


def test_the_model_is_found_again() -> None:
    def true(n: int) -> float:
        return 1 + 8 / n + 0.25 * (n - 1)

    model = fit_step_time({n: true(n) for n in (1, 2, 4, 8)})
    assert [model(n) for n in (1, 3, 6, 16)] == pytest.approx([true(n) for n in (1, 3, 6, 16)])
    curve = fit_speedup({n: [true(n)] for n in (1, 2, 4, 8)}, 32)
    assert [curve(n) for n in (3, 6, 16)] == pytest.approx([9 / true(n) for n in (3, 6, 16)])
    assert curve(32) == curve(16), "nothing is believed beyond twice the largest size"


def test_a_measured_size_has_its_measured_value_whatever_the_fit_says() -> None:
    curve = fit_speedup({1: [10], 2: [9], 4: [2.6], 8: [2.5]}, 16)
    assert [curve(n) for n in (1, 2, 4, 8)] == pytest.approx([1, 10 / 9, 10 / 2.6, 4])


def test_a_step_that_takes_next_to_nothing_alone() -> None:
    curve = fit_speedup({1: [1e-9], 2: [1.0], 3: [2.0]}, 6)
    assert curve(1) == 1
    assert [curve(n) for n in (2, 3)] == pytest.approx([1e-9, 5e-10])


def test_a_prior_is_scaled_to_what_was_measured() -> None:
    prior = SpeedUp([1, 1.8, 2.4, 2.8])
    assert fit_speedup({}, 3, prior).values == (0, 1, 1.8, 2.4)
    assert fit_speedup({}, 6, prior)(6) == 2.8
    curve = fit_speedup({1: [10], 2: [10 / 1.6]}, 6, prior)
    assert values(curve) == [1, 1.6, 2.1333, 2.4889, 2.4889, 2.4889], "8/9 of it from 2 on"
    three = fit_speedup({1: [8], 2: [4], 4: [2]}, 8, prior)
    assert three(8) == pytest.approx(8), "three sizes tell more than earlier jobs"


times_of_sizes = st.dictionaries(st.integers(1, 64), st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=3), max_size=6)
priors = st.none() | st.builds(assumed_speedup, st.integers(1, 64), st.floats(0, 1))


@settings(deadline=None)
@given(times_of_sizes, st.integers(1, 100), priors)
def test_between_0_and_n_and_1_at_one_slot(times: dict[int, list[float]], most: int, prior: SpeedUp | None) -> None:
    curve = fit_speedup(times, most, prior)
    assert curve.most == most
    assert curve(1) == 1
    for n in range(1, most + 1):
        assert 0 < curve(n) <= n
    if times:
        assert len({curve(n) for n in range(2 * max(times), most + 1)}) <= 1, "flat beyond twice the largest size"


@settings(deadline=None)
@given(times_of_sizes, st.sampled_from([1 / 1024, 0.5, 4.0]), priors)
def test_the_unit_of_time_does_not_matter(times: dict[int, list[float]], factor: float, prior: SpeedUp | None) -> None:
    scaled = {n: [t * factor for t in ts] for n, ts in times.items()}
    assert fit_speedup(scaled, 20, prior).values == pytest.approx(fit_speedup(times, 20, prior).values)


@settings(deadline=None)
@given(
    st.lists(st.floats(0, 10), min_size=3, max_size=3).filter(lambda w: w[0] + w[1] > 0.1),
    st.sets(st.integers(1, 16), min_size=3),
)
def test_what_follows_the_model_is_predicted(weights: list[float], sizes: set[int]) -> None:
    a, b, c = weights
    model = fit_step_time({n: a + b / n + c * (n - 1) for n in sizes})
    for n in range(min(sizes), 2 * max(sizes) + 1):
        assert model(n) == pytest.approx(a + b / n + c * (n - 1), rel=0.02)


def _at(profile: Any, model: str, placements: dict[int, str], batch: int) -> dict[int, float] | None:
    step_time = profile(model)
    found = {n: step_time(placement, batch / n) for n, placement in placements.items()}
    return None if None in found.values() else found


@pytest.mark.parametrize(
    ("placements", "factor"),
    [
        pytest.param({1: "1", 2: "11", 4: "1111", 8: "2222"}, 2.0, id="spread over nodes before and after"),
        # Inside one node nothing is seen of the network, so that the step to two nodes comes as a surprise.
        pytest.param({1: "1", 2: "2", 4: "4", 8: "44"}, 4.0, id="one node before, two after"),
    ],
)
@pytest.mark.parametrize("model", ["cifar10", "imagenet", "deepspeech2"])
def test_real_models_1_2_4_predict_8(
    profile: Callable[[str], object], model: str, placements: dict[int, str], factor: float
) -> None:
    compared = 0
    for batch in (80, 163, 200, 257, 363, 513, 725, 1024):
        if (times := _at(profile, model, placements, batch)) is None:
            continue
        curve = fit_speedup({n: [times[n]] for n in (1, 2, 4)}, 8)
        true = times[1] / times[8]
        assert 1 / factor <= curve(8) / true <= factor, (batch, curve.values, true)
        compared += 1
    assert compared


def test_a_real_model_that_only_loses_by_more_workers(profile: Callable[[str], object]) -> None:
    times = _at(profile, "ncf", {1: "1", 2: "11", 4: "1111", 8: "2222"}, 2051)
    assert times is not None
    curve = fit_speedup({n: [times[n]] for n in (1, 2, 4)}, 8)
    assert times[1] / times[8] < 1
    assert max(curve.values[2:]) < 1
