"""`price`: what is believed, what is bid, and who gets what by hand-computed numbers; nobody waits without bound."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.domain.job import Job
from schedulearn.core.domain.speedup import SpeedUp, assumed_speedup
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.core.policies.allocate.price import Crowd, Step, bins_of, hull
from schedulearn.core.policies.belief import seconds_left, speeds
from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.core.policies.stages import Ask
from schedulearn.lab.sim.cluster import parse_cluster
from schedulearn.lab.sim.engine import SimOptions, Simulation
from schedulearn.lab.sim.facts import OracleFacts
from schedulearn.lab.sim.fairness import Demand, fair_ends
from schedulearn.lab.sim.learned import LearnedFacts
from schedulearn.lab.sim.metrics import Result
from schedulearn.lab.traces.types import TraceJob, Workload
from support.builders import job
from support.facts import AssumedFacts

LINEAR = SpeedUp([1.0, 2.0, 3.0, 4.0])
FLAT = SpeedUp([1.0, 1.1, 1.15, 1.2])
HOUR = 3600.0


class Known(AssumedFacts):
    def __init__(self, curve: SpeedUp | None = None, measured: int = 0, left: Estimate | None = None) -> None:
        self._curve, self._measured, self._left = curve, measured, left

    def speedup(self, job: Job) -> SpeedUp:
        return self._curve or super().speedup(job)

    def measured_up_to(self, job: Job) -> int:
        return self._measured

    def estimate(self, job: Job, now: float) -> Estimate | None:
        return self._left


# --- what is believed


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (Known(), {1: 1.0, 2: 1.6}),  # nothing is known: 0.8 at what was asked for, and no more than that
        (Known(LINEAR, 4), {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0}),
        (Known(FLAT, 4), {1: 1.0, 2: 1.1, 3: 1.15, 4: 1.2}),  # measured: what its user asked for does not count
        (Known(FLAT), {1: 1.0, 2: 1.6, 3: 1.6, 4: 1.6}),  # of jobs of its name: what was asked for brings something
    ],
)
def test_speeds(facts: Known, expected: dict[int, float]) -> None:
    one = job(1, gpus=1, workers=(1, 2, 4))
    assert speeds(one, Ask(1.0, 1, 2, 4, 0), facts, 0.8) == {n: pytest.approx(s) for n, s in expected.items()}


def test_what_it_has_is_among_the_sizes() -> None:
    one = job(1, gpus=1, workers=(1, 2, 11))
    known = Known(SpeedUp.of(float, 11), 11)
    assert list(speeds(one, Ask(1.0, 1, 2, 11, 7), known, 0.8)) == [1, 2, 3, 4, 6, 7, 8, 11]


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        (Estimate(100.0, 100.0, 100.0), (100.0, 100.0, 100.0, 100.0, 100.0)),
        (Estimate(25.0, 100.0, 400.0), (25.0, 50.0, 100.0, 200.0, 400.0)),
        (Estimate(0.0, 0.0, 0.0), (1.0, 1.0, 1.0, 1.0, 1.0)),
        (None, (200.0, 600.0, 1800.0, 5400.0, 16200.0)),
    ],
)
def test_amounts_of_work(left: Estimate | None, expected: tuple[float, ...]) -> None:
    assert seconds_left(job(1), Known(left=left), 0.0) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({0: 0.0, 1: 1.0, 2: 1.5}, [Step(0, 1, 1.0), Step(1, 2, 0.5)]),
        ({0: 0.0, 1: 0.2, 4: 3.2}, [Step(0, 4, 0.8)]),  # one worker alone is not worth it
        ({0: 0.0, 1: 1.0, 2: 0.5, 4: 2.5}, [Step(0, 1, 1.0), Step(1, 4, 0.5)]),  # past a size at which it is slower
        ({0: 0.0, 1: 1.0, 2: 0.9}, [Step(0, 1, 1.0)]),
        ({0: -2.0, 2: 2.0}, [Step(0, 2, 2.0)]),  # it runs: to be stopped costs something
    ],
)
def test_steps(values: dict[int, float], expected: list[Step]) -> None:
    assert list(hull(values)) == [Step(low, high, pytest.approx(gain)) for low, high, gain in expected]


def test_a_crowd_says_how_many_have_more_left() -> None:
    crowd = Crowd()
    for amount in (10.0, 1000.0, 100_000.0):
        crowd.add(bins_of((amount,) * 5, 1.0))
    longer = [crowd.longer(bins_of((amount,) * 5, 1.0)) for amount in (1.0, 10.0, 50.0, 1000.0, 1e9)]
    assert longer == [3.0, 2.5, 2.0, 1.5, 0.0]
    again = Crowd(crowd.jobs, crowd.bins)
    other = Crowd()
    other.join(again, 6)
    assert (other.jobs, other.longer(bins_of((25.0,) * 5, 2.0))) == (6.0, 4.0), "twice as many, in the same proportions"


# --- who gets what


def run(*jobs: TraceJob, cluster: str = "1x4", oracle: bool = True, **options: Any) -> Result:
    facts = OracleFacts() if oracle else LearnedFacts()
    policy = build_policy("schedulearn")
    return Simulation(Workload("jobs", jobs), parse_cluster(cluster), policy, SimOptions(**options), facts).run()


def elastic(label: str, arrival: float, duration: float, curve: SpeedUp, gpus: int = 2) -> TraceJob:
    return TraceJob(label, arrival, duration, gpus, name=label, workers=(1, 4), speedup=curve)


def ended(result: Result) -> dict[int, float]:
    return {one.serial: round(one.ended, 1) for one in result.jobs}


def test_a_gpu_goes_where_it_brings_more() -> None:
    result = run(elastic("scales", 0.0, 100.0, LINEAR), elastic("does not", 0.0, 100.0, FLAT))
    assert ended(result)[1] == pytest.approx(66.7, abs=0.1), "three for the one that scales: 200 / 3"


def test_a_short_job_interrupts_a_long_one_of_fixed_size() -> None:
    result = run(TraceJob("long", 0.0, 1000.0, 4), TraceJob("short", 10.0, 10.0, 4), restart_cost=1.0)
    assert ended(result) == {2: 20.0, 1: 1011.0}


def test_a_restart_that_costs_more_than_it_brings_is_not_made() -> None:
    result = run(TraceJob("long", 0.0, 100.0, 4), TraceJob("short", 10.0, 80.0, 4), restart_cost=60.0)
    assert ended(result) == {1: 100.0, 2: 180.0}


def test_the_longest_jobs_are_not_left_for_ever() -> None:
    """Short jobs keep the only GPU busy; the long one comes first once it has waited for too long."""
    short = [TraceJob(f"s{k}", 50.0 * k, 60.0, 1, name="short") for k in range(1500)]
    result = run(TraceJob("long", 1.0, 2000.0, 1, name="long"), *short, cluster="1x1")
    assert ended(result)[1] < 2000 + HOUR + 9 * 2000 + 60 + 300, "an hour, eight times its duration, itself, and a look"


_loads = st.tuples(st.integers(0, 10**6), st.integers(2, 30), st.sampled_from(["2x4", "4x2"]), st.booleans())


@settings(max_examples=25, deadline=None)
@given(_loads)
def test_nobody_fares_worse_than_this_against_equal_shares(load: tuple[int, int, str, bool]) -> None:
    """ρ ≤ 10 beyond the hour, for jobs of equal priority that may be interrupted, wide ones included."""
    seed, count, cluster, oracle = load
    rng = random.Random(seed)
    jobs = [
        TraceJob(
            str(number),
            rng.uniform(0, 5000),
            rng.lognormvariate(6, 1.5),
            (want := rng.choice([1, 1, 2, 4, 8])),
            name=rng.choice("ab"),
            workers=rng.choice([None, (1, 8)]),
            speedup=assumed_speedup(max(want, 8)),
        )
        for number in range(count)
    ]
    result = run(*jobs, cluster=cluster, oracle=oracle, restart_cost=10.0)
    fair = fair_ends(tuple(Demand(one.arrival, one.duration, float(one.gpus)) for one in jobs), 8.0)
    assert len(result.jobs) == count
    for one in result.jobs:
        assert one.jct <= HOUR + 10 * (fair[one.serial - 1] - one.arrival)
