"""The best that is known of a job answers."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.estimate.combine import Facts, remaining
from schedulearn.core.estimate.history import Finished, History
from schedulearn.core.estimate.loss import predict_flat
from schedulearn.core.estimate.remaining import Estimate

CURVE = [(float(k), 5 * math.exp(-k / 100)) for k in range(301)]
FLAT = 100 * math.log(50)


def history() -> History:
    known = History()
    for seconds in (700, 800, 900):
        known.learn(Finished("ann", "mnist", 1, seconds))
    return known


ALL = Facts("ann", "mnist", 1, ran=600, step=300, steps=1000, flat=predict_flat(CURVE))


@pytest.mark.parametrize(
    ("facts", "expected", "source"),
    [
        pytest.param(ALL, 1400, "steps", id="700 steps of 2 s"),
        pytest.param(replace(ALL, step_time=1.0), 700, "steps", id="it runs faster now"),
        pytest.param(replace(ALL, steps=None), (FLAT - 300) * 2, "loss curve", id="no total: when it flattens"),
        pytest.param(replace(ALL, steps=None, step_time=5.0), (FLAT - 300) * 5, "loss curve", id="at its speed now"),
        pytest.param(replace(ALL, steps=None, flat=None), 200, "jobs of the same user, name and size", id="like"),
        pytest.param(
            replace(ALL, steps=None, step=500), 200, "jobs of the same user, name and size", id="flat already"
        ),
        pytest.param(replace(ALL, step=None), 200, "jobs of the same user, name and size", id="no step was reported"),
        pytest.param(replace(ALL, time_left=300), 300, "steps", id="its time limit ends it"),
        pytest.param(replace(ALL, time_left=0), 0, "steps", id="beyond its time limit"),
    ],
)
def test_which_one_answers(facts: Facts, expected: float, source: str) -> None:
    found = remaining(facts, history())
    assert found is not None
    assert found.expected == pytest.approx(expected, rel=0.02)
    assert found.source == source


def test_without_a_history() -> None:
    nothing = Facts("ann", "mnist", 1, ran=10)
    assert remaining(nothing) is None
    assert remaining(nothing, History()) is None
    limited = remaining(replace(nothing, time_left=90), History())
    assert limited == Estimate(0, 90, 90)
    assert limited.source == "its time limit"
    flat = remaining(replace(ALL, steps=None, step=500))
    assert flat is not None
    assert (flat.low, flat.expected, flat.source) == (0, 0, "loss curve")


def test_features_reach_the_history() -> None:
    known = History()
    for epochs in (1, 2, 3, 4, 5):
        known.learn(Finished("ann", "mnist", 1, 10.0 * epochs, {"--epochs": epochs}))
    found = remaining(Facts("ann", "mnist", 1, features={"--epochs": 8}), known)
    assert found is not None
    assert found.expected == pytest.approx(80)


@settings(deadline=None)
@given(
    st.builds(
        Facts,
        st.sampled_from(["ann", "bob"]),
        st.just("mnist"),
        st.integers(0, 8),
        ran=st.floats(0, 1e7),
        step=st.none() | st.integers(0, 10**6),
        steps=st.none() | st.integers(0, 10**6),
        step_time=st.none() | st.floats(1e-3, 1e3),
        flat=st.sampled_from([None, predict_flat(CURVE), Estimate(0.0, 10.0, 1e5, "loss curve")]),
        time_left=st.none() | st.floats(0, 1e7),
    )
)
def test_finite_ordered_never_negative(facts: Facts) -> None:
    found = remaining(facts, history())
    assert found is not None
    assert 0 <= found.low <= found.expected <= found.high < math.inf
    assert found.source
