"""Where workers are matters to what a simulation tells."""

from collections.abc import Sequence
from typing import Any

import pytest

from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.lab.sim.cluster import parse_cluster
from schedulearn.lab.sim.engine import SimOptions, Simulation
from schedulearn.lab.sim.metrics import Result
from schedulearn.lab.traces.types import TraceJob, Workload

SCATTERED = 0.5  # of its speed is left to a job on several nodes


def placed(nodes: tuple[int, ...]) -> float:
    return sum(nodes) * (1.0 if len(nodes) == 1 else SCATTERED)


def run(
    jobs: Sequence[TraceJob], cluster: str, policy: str = "fifo", stages: dict[str, str] | None = None, **options: Any
) -> Result:
    policy_ = build_policy(policy, stages)
    return Simulation(Workload("t", jobs), parse_cluster(cluster), policy_, SimOptions(timeline=True, **options)).run()


def times(result: Result) -> dict[int, float]:
    return {job.serial: job.jct for job in result.jobs}


def test_a_scattered_job_takes_the_time_that_was_measured() -> None:
    jobs = [TraceJob("in the way", 0.0, 1000.0, 1), TraceJob("a", 0.0, 100.0, 3, placed=placed)]
    assert times(run(jobs, "2x2"))[2] == pytest.approx(100.0 * (3 / (1 + 0.05 * 2)) / (3 * SCATTERED))
    assert times(run(jobs, "2x4"))[2] == pytest.approx(100.0 * (3 / (1 + 0.05 * 2)) / 3)


def test_what_was_measured_is_not_made_worse_by_an_assumption() -> None:
    jobs = [TraceJob("a", 0.0, 100.0, 4, placed=placed)]
    assert times(run(jobs, "2x2", locality_penalty=0.3)) == times(run(jobs, "2x2"))


def test_what_nobody_measured_loses_what_is_assumed() -> None:
    assert times(run([TraceJob("a", 0.0, 100.0, 4)], "2x2", locality_penalty=0.2)) == {1: pytest.approx(125.0)}


def test_jobs_that_talk_are_better_packed() -> None:
    jobs = [TraceJob(str(k), 0.0, 100.0, 2, placed=placed) for k in range(4)]
    packed, spread = (run(jobs, "4x2", stages={"place": name}).summary() for name in ("pack", "k8s-default"))
    assert packed["avg_jct"] < 0.8 * spread["avg_jct"]


def test_jobs_that_share_cores_are_better_spread() -> None:
    jobs = [TraceJob(str(k), 0.0, 100.0, 0, cpus=2.0) for k in range(4)]
    packed, spread = (run(jobs, "4x2c", stages={"place": name}).summary() for name in ("pack", "k8s-default"))
    assert spread["avg_jct"] == pytest.approx(100.0)
    assert packed["avg_jct"] > 2 * spread["avg_jct"]


def test_jobs_that_became_scattered_are_better_consolidated() -> None:
    """It starts across the holes that two short ones leave, and could soon have a node of its own."""
    jobs = [TraceJob(f"short {k}", 0.0, 50.0, 1) for k in range(2)]
    jobs += [TraceJob(f"held {k}", 0.0, 400.0, 1) for k in range(2)]
    jobs += [TraceJob("long", 1.0, 20_000.0, 2, placed=placed)]
    stages = [{"place": "k8s-default", "migrate": name} for name in ("none", "consolidate")]
    scattered, together = (run(jobs, "2x2", stages=one, restart_cost=5.0) for one in stages)
    assert together.summary()["migrations"] > 0
    assert times(together)[5] < 0.7 * times(scattered)[5]


def test_a_job_that_grows_goes_where_all_of_it_has_room() -> None:
    """It is in the hole that another leaves, and would else be scattered when it doubles."""
    jobs = [TraceJob("in the way", 0.0, 300.0, 3, workers=(3, 3)), TraceJob("grows", 0.0, 1000.0, 1, workers=(1, 4))]
    jobs += [TraceJob("first", 0.0, 100.0, 4, workers=(4, 4))]
    result = run(jobs, "2x4", policy="elastic-fifo")
    grown = [(s.node, s.workers) for s in result.segments if s.serial == 2]
    assert grown == [("node0000", 1), ("node0001", 4)]


def test_a_second_gpu_that_brings_little_is_in_use_and_hardly_useful() -> None:
    jobs = [TraceJob("a", 0.0, 100.0, 2, speedup=SpeedUp([1.0, 1.2]))]
    figures = run(jobs, "1x2").summary()
    assert (figures["utilization"], figures["useful"]) == (pytest.approx(1.0), pytest.approx(0.6))
