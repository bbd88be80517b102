"""What is left, from a job's own steps."""

from typing import Any

from schedulearn.core.estimate.remaining import Estimate, remaining_by_steps


def test_remaining_by_steps_narrows_as_it_gets_on() -> None:
    early: Any = remaining_by_steps(ran=10, step=10, steps=100)
    late: Any = remaining_by_steps(ran=90, step=90, steps=100)
    assert (early.expected, late.expected) == (90, 10)
    assert (early.high - early.low) / early.expected > (late.high - late.low) / late.expected
    assert remaining_by_steps(ran=10, step=0, steps=100) is None
    assert remaining_by_steps(ran=10, step=5, steps=0) is None


def test_remaining_by_steps_beyond_the_total_and_with_a_step_time() -> None:
    assert remaining_by_steps(ran=10, step=120, steps=100) == Estimate(0, 0, 0)
    now: Any = remaining_by_steps(ran=100, step=50, steps=100, step_time=1.0)
    assert now.expected == 50, "it runs faster now than its mean of 2 s"


def test_an_estimate_in_other_terms() -> None:
    estimate = Estimate(1, 2, 3, "steps")
    assert (estimate.after(10), estimate.after(10).source) == (Estimate(11, 12, 13), "steps")
    assert estimate.times(2) == Estimate(2, 4, 6)
    assert estimate.at_most(2.5) == Estimate(1, 2, 2.5)
