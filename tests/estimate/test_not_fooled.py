"""What changes under an estimate's feet: a loss that jumps, a job that goes on from an earlier step, other data."""

import math

import pytest

from schedulearn.core.domain.job import Accrual, Job
from schedulearn.core.estimate.history import History
from schedulearn.core.estimate.jobs import JobEstimates, Seen, finished
from schedulearn.core.estimate.loss import predict_flat
from schedulearn.core.estimate.remaining import Estimate
from support.builders import job

FLAT = 50 * math.log(50)  # steps after which exp(-k / 50) is flat


# --- a loss that jumps


def jumping(count: int, at: int = 200, height: float = 3.0) -> list[tuple[float, float]]:
    """Falls by 5 until it jumps up, and falls again."""

    def loss(k: int) -> float:
        return 1 + 5 * math.exp(-k / 50) + (height * math.exp(-(k - at) / 50) if k > at else 0.0)

    return [(float(k), loss(k)) for k in range(1, count + 1)]


@pytest.mark.parametrize("count", [235, 260, 300, 350])
def test_a_jump_begins_a_new_curve(count: int) -> None:
    found = predict_flat(jumping(count))
    assert found
    assert found.expected == pytest.approx(200 + FLAT, rel=0.06)


def test_right_after_a_jump_nothing_is_told() -> None:
    assert predict_flat(jumping(207)) is None, "it is not flat, as it was at 200"


@pytest.mark.parametrize("goal", ["min", "max"])
def test_a_metric_that_is_to_rise_jumps_down(goal: str) -> None:
    sign = 1 if goal == "min" else -1
    assert predict_flat([(k, sign * value) for k, value in jumping(300)], goal) == predict_flat(jumping(300))


def test_a_small_rise_is_part_of_the_curve() -> None:
    found = predict_flat(jumping(300, height=0.3))
    assert found
    assert found.expected == pytest.approx(FLAT, rel=0.25)


# --- a job that goes on from an earlier step


def remaining(estimates: JobEstimates, one: Job, step: float, worked: float, history: History | None = None) -> float:
    one.worked = Accrual(worked)
    found = estimates.remaining(one, Seen(step, 0.0, int(step), lambda _: []), history or History(), 0.0)
    assert found
    return found.expected


@pytest.mark.parametrize("goes_on_at", [0, 300, 590])
def test_a_resumed_job_is_as_fast_as_before(goes_on_at: int) -> None:
    """A second for each step, and 40 s until it is back at work."""
    estimates, one = JobEstimates(), job(1, steps=1000)
    assert remaining(estimates, one, 600, 600) == pytest.approx(400)
    for done in (1, 5, 50):
        step = goes_on_at + done
        assert remaining(estimates, one, step, 640 + done) == pytest.approx(1000 - step, rel=0.1)


def test_a_resumed_job_that_has_become_slower_shows_it() -> None:
    estimates, one = JobEstimates(), job(1, steps=1000)
    remaining(estimates, one, 600, 600)
    remaining(estimates, one, 500, 640)
    assert remaining(estimates, one, 510, 660) == pytest.approx(2 * 490)


# --- other data


def ended(number: int, seconds: float) -> Job:
    one = job(number, name="train")
    one.worked = Accrual(seconds)
    return one


def test_once_three_jobs_have_taken_longer_one_that_outruns_the_others_is_told_by_them() -> None:
    history, estimates = History(), JobEstimates()
    for number in range(30):
        history.learn(finished(ended(number, 100.0 + number), 0.0))
    late = ended(99, 140.0)
    assert estimates.remaining(late, None, history, 0.0) == Estimate(140 / 9, 140, 140 * 9), "it outran all"
    for number in range(3):
        history.learn(finished(ended(50 + number, 1000.0), 0.0))
    found = estimates.remaining(late, None, history, 0.0)
    assert found
    assert found.expected == pytest.approx(860.0)


def test_a_source_is_believed_again_when_jobs_alike_have_become_bad_guides() -> None:
    """Announcements were three times too high, jobs all alike. Then they are right, and jobs differ."""
    history, estimates = History(), JobEstimates()

    def run(number: int, announced: int, seconds: float) -> None:
        one = job(number, name="train", steps=announced)
        remaining(estimates, one, 10, 10.0, history)
        one.worked = Accrual(seconds)
        estimates.ended(one, 0.0)
        history.learn(finished(one, 0.0))

    for number in range(100):
        run(number, 300, 100.0)
    assert not estimates.trust.always_believes("steps")
    again = next(
        number
        for number in range(100)
        if run(1000 + number, 1000 + 500 * (number % 2), 1000.0 + 500 * (number % 2))
        or estimates.trust.always_believes("steps")
    )
    assert again <= 20
