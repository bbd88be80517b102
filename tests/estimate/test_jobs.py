"""What a job's own circumstances tell of how long it runs."""

from typing import Any

import pytest

from schedulearn.core.domain.job import Accrual, Job
from schedulearn.core.estimate.history import History
from schedulearn.core.estimate.jobs import duration, finished
from support.builders import World, job, node


def ended(number: int, beside: int, seconds: float, **more: Any) -> Job:
    one = job(number, name="mnist", **more)
    one.beside, one.worked = beside, Accrual(seconds)
    return one


def test_how_many_ran_beside_a_job_tells_how_long_it_takes_without_gpus() -> None:
    history = History()
    for number in range(1, 31):
        beside = number % 6
        history.learn(finished(ended(number, beside, 100.0 * (1 + beside) * (1 + 0.01 * (number % 5))), 1000.0))
    for beside in (0, 2, 5):
        found = duration(ended(99, beside, 0.0), history)
        assert found
        assert found.expected == pytest.approx(102.0 * (1 + beside), rel=0.05)


def test_a_job_with_gpus_has_them_for_itself() -> None:
    assert "jobs beside" not in finished(ended(1, 3, 100.0, gpus=1), 1000.0).features
    assert finished(ended(1, 3, 100.0), 1000.0).features["jobs beside"] == 4.0


def test_jobs_without_gpus_are_counted_when_one_of_them_comes() -> None:
    w = World(node("a", cpus=8, gpus=2))
    for number in (1, 2):
        w.submit(job(number))
    w.submit(job(3, gpus=1))
    w.submit(job(4))
    w.submit(job(5, gpus=1))
    assert [w.job(number).beside for number in range(1, 6)] == [0, 1, 0, 2, 0]
