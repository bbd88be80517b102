"""The weight of a job and the hint on what it asks for, from a store in which jobs really ran."""

from typing import Any

import pytest

from schedulearn.core.domain.ids import JobId
from schedulearn.service.common.config import DataFolder
from schedulearn.service.gateway.advice import Adviser
from schedulearn.service.gateway.views import Advice
from schedulearn.service.learn.estimator import Estimator, PastJobs
from schedulearn.store import Point, Store
from support.clock import HandClock
from support.scheduling import Bench


@pytest.fixture
def bench(store: Store, folder: DataFolder, clock: HandClock) -> Bench:
    return Bench(store, folder, clock)


@pytest.fixture
def adviser(store: Store) -> Adviser:
    return Adviser(store)


def ran(bench: Bench, seconds: float, **more: Any) -> JobId:
    """A job that ran for so long and succeeded."""
    job = bench.running(**more)
    bench.clock.pass_time(seconds)
    bench.exited(f"{job}.1.0")
    bench.cycle()
    assert bench.state(job) == "succeeded"
    return job


def advice(adviser: Adviser, bench: Bench, job: JobId) -> Advice:
    row = bench.store.job(job)
    assert row
    return adviser.advise(row, bench.clock.now())


def numbers(told: Advice) -> tuple[float, float, float, str, str]:
    assert told.weight
    amount = told.weight.amount
    return amount.low, amount.expected, amount.high, told.weight.unit, amount.source


def test_nothing_is_known_at_first(bench: Bench, adviser: Adviser) -> None:
    assert advice(adviser, bench, bench.submit()) == Advice(None, None)


def test_a_time_limit_is_better_than_nothing(bench: Bench, adviser: Adviser) -> None:
    told = advice(adviser, bench, bench.submit(cpus=2, time_limit=600.0))
    assert numbers(told) == (0.0, 1200.0, 1200.0, "core-seconds", "its time limit")
    assert told.hint is None


def test_jobs_like_it_tell_its_weight(bench: Bench, adviser: Adviser) -> None:
    for seconds in (60.0, 120.0, 240.0):
        ran(bench, seconds, cpus=2)
    source = "jobs of the same user, name and size"
    assert numbers(advice(adviser, bench, bench.submit(cpus=2))) == (120, 240, 480, "core-seconds", source)
    limited = advice(adviser, bench, bench.submit(cpus=2, time_limit=100.0))
    assert numbers(limited) == (120, 200, 200, "core-seconds", source), "its limit ends it"
    with_gpus = advice(adviser, bench, bench.submit(cpus=2, gpus=4))
    assert numbers(with_gpus) == (240, 480, 960, "GPU-seconds", "jobs of the same user and name")


def test_its_own_steps_tell_more_and_its_end_tells_all(bench: Bench, adviser: Adviser) -> None:
    job = bench.running(steps=100)
    bench.store.add_points(job, 1, 0, "report", [Point(1, 1.0, 50, "loss", 0.5)])
    bench.clock.pass_time(30.0)
    low, expected, high, _, source = numbers(advice(adviser, bench, job))
    assert source == "steps"
    assert expected == pytest.approx(60.0)
    assert 30.0 < low < 60.0 < high
    bench.exited(f"{job}.1.0")
    bench.cycle()
    assert numbers(advice(adviser, bench, job)) == (30, 30, 30, "core-seconds", "what it took")


@pytest.mark.parametrize(
    ("asks", "words"),
    [
        ({"time_limit": 36000.0}, "a time limit of 10 h, far more than the 2 min that 3 jobs like it used at most"),
        ({"time_limit": 30.0}, "a time limit of 30 s, less than most of 3 jobs like it used"),
        ({"gpus": 1}, None),
        ({"cpus": 16}, "16 cores, far more than the 2 cores that 3 jobs like it asked for at most"),
        ({"memory": 10**11}, "100 GB of memory, far more than the 1 GB that 3 jobs like it asked for at most"),
        ({"memory": 10**8}, "100 MB of memory, far less than most of 3 jobs like it asked for"),
        ({"time_limit": 300.0, "memory": 10**9}, None),
        ({"name": "other", "time_limit": 36000.0}, None),
    ],
)
def test_hints(bench: Bench, adviser: Adviser, asks: dict[str, Any], words: str | None) -> None:
    for _ in range(3):
        ran(bench, 120.0, cpus=2, memory=10**9)
    told = advice(adviser, bench, bench.submit(**{"cpus": 2, **asks})).hint
    assert words in told if told and words else told == words


def test_all_who_read_one_store_share_what_is_known(bench: Bench) -> None:
    one, other = Estimator(bench.store), Estimator(bench.store)
    ran(bench, 1.0)
    assert one.history is other.history
    assert len(other.history) == 1


def test_each_job_is_learned_once_however_many_end(bench: Bench) -> None:
    past = PastJobs(bench.store)
    for more in (1, 2, 60):
        before = len(past.read())
        for _ in range(more):
            ran(bench, 1.0)
        assert len(past.read()) == before + more
    assert len(PastJobs(bench.store).read()) == 63


def test_the_history_is_read_again_after_a_while(bench: Bench, adviser: Adviser) -> None:
    job = bench.submit(name="waits", cpus=2, depends_on=(bench.submit(name="first", cpus=64),))
    for _ in range(2):
        ran(bench, 60.0)
    assert advice(adviser, bench, job).weight is None
    ran(bench, 1.0)
    assert advice(adviser, bench, job).weight is None, "a moment ago it was read"
    bench.clock.pass_time(2.0)
    assert advice(adviser, bench, job).weight
