"""Ranges and curves for traces that have none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.lab.traces.elastic import made_elastic
from schedulearn.lab.traces.types import TraceJob, Workload


def one(job: TraceJob, seed: int = 0) -> TraceJob:
    (made,) = made_elastic(Workload("t", [job]), seed).jobs
    return made


@given(st.integers(1, 200), st.integers(0, 1000), st.integers(0, 9))
def test_nobody_asked_for_what_brings_nothing(gpus: int, label: int, seed: int) -> None:
    job = one(TraceJob(str(label), 0.0, 100.0, gpus), seed)
    assert job.speedup
    assert (job.workers, job.duration, job.gpus, job.speedup.most) == ((1, 2 * gpus), 100.0, gpus, 2 * gpus)
    assert job.speedup(1) == 1.0
    assert job.speedup(gpus) >= 0.5 * gpus - 1e-9
    assert all(job.speedup(n) <= n + 1e-9 for n in range(1, 2 * gpus + 1)), "more than n times as fast with n"


def test_jobs_of_one_name_and_size_scale_alike() -> None:
    jobs = [TraceJob(str(k), 0.0, 1.0, 4, name="bert") for k in range(9)]
    assert len({job.speedup.values for job in made_elastic(Workload("t", jobs)).jobs if job.speedup}) == 1


def test_without_names_and_under_other_seeds_they_differ() -> None:
    curves = {
        job.speedup.values
        for seed in range(4)
        for job in made_elastic(Workload("t", [TraceJob(str(k), 0.0, 1.0, 4) for k in range(20)]), seed).jobs
        if job.speedup
    }
    assert len(curves) > 4


@pytest.mark.parametrize(
    "job",
    [
        TraceJob("no GPUs", 0.0, 1.0, 0, cpus=2.0),
        TraceJob("has a range", 0.0, 1.0, 4, workers=(2, 4), speedup=SpeedUp([1.0, 1.5])),
    ],
)
def test_what_the_trace_says_stays(job: TraceJob) -> None:
    assert one(job) == job


def test_a_measured_curve_stays() -> None:
    curve = SpeedUp([1.0, 1.5])
    assert one(TraceJob("a", 0.0, 1.0, 2, speedup=curve)).speedup is curve
