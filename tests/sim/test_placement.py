"""Where workers are matters to what a simulation tells."""

from collections.abc import Sequence
from typing import Any

import pytest

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.core.estimate.jobs import ASSUMED_PENALTY
from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.lab.sim.cluster import nodes_from_list, parse_cluster
from schedulearn.lab.sim.engine import SimOptions, Simulation
from schedulearn.lab.sim.facts import OracleFacts
from schedulearn.lab.sim.learned import LearnedFacts
from schedulearn.lab.sim.metrics import Result
from schedulearn.lab.traces.types import TraceJob, Workload

ONE_GIGABYTE = 8.0  # Gbit/s for a GB in a second
SCATTERED = 0.5  # of its speed is left to a job on several nodes


def placed(nodes: tuple[int, ...]) -> float:
    return sum(nodes) * (1.0 if len(nodes) == 1 else SCATTERED)


def run(
    jobs: Sequence[TraceJob],
    cluster: str | list[dict[str, Any]],
    policy: str = "fifo",
    stages: dict[str, str] | None = None,
    **options: Any,
) -> Result:
    policy_ = build_policy(policy, stages)
    nodes = parse_cluster(cluster) if isinstance(cluster, str) else nodes_from_list(cluster)
    return Simulation(Workload("t", jobs), nodes, policy_, SimOptions(timeline=True, **options)).run()


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


# --- over a network whose bandwidth is known


def cluster(*bandwidths: float | None, gpus: int = 4) -> list[dict[str, Any]]:
    return [{"gpus": gpus} | ({} if each is None else {"bandwidth": each}) for each in bandwidths]


def across(*bandwidths: float | None, **more: Any) -> float:
    """How long a job of 100 s takes with a worker on each of two nodes."""
    fillers = [TraceJob(f"in the way {k}", 0.0, 1000.0, 3) for k in range(2)]
    job = TraceJob("a", 0.0, 100.0, 2, **{"model_bytes": 500e6, "step_seconds": 0.5} | more)
    return times(run([*fillers, job], cluster(*bandwidths)))[3]


ALONE = 2 / 1.05 / 2  # of two workers, the part of a step in which they compute, by the curve that is assumed


@pytest.mark.parametrize(
    ("bandwidths", "more", "factor"),
    [
        pytest.param((8.0, 8.0), {}, ALONE + 0.5 / 0.5, id="half a GB at a GB a second, each half a second"),
        pytest.param((8.0, 4.0), {}, ALONE + 1.0 / 0.5, id="the slower of the two networks counts"),
        pytest.param((8.0, None), {}, ALONE + 0.5 / 0.5, id="where nothing is said, a network is never the slower"),
        pytest.param((8.0, 8.0), {"model_bytes": 50e6}, ALONE + 0.05 / 0.5, id="a small model"),
        pytest.param((8.0, 8.0), {"step_seconds": 5.0}, ALONE + 0.5 / 5, id="long steps"),
        pytest.param((800.0, 800.0), {}, 1.0, id="what the curve lost to the exchange already is not lost twice"),
        pytest.param((8.0, 8.0), {"speedup": SpeedUp([1.0, 1.0])}, 0.5 + 1.0, id="a curve that has lost half to it"),
        pytest.param((8.0, 8.0), {"model_bytes": None, "step_seconds": None}, ALONE + 0.1 / 0.25, id="assumed"),
        pytest.param((0.8, 0.8), {"placed": lambda nodes: sum(nodes) / 1.05}, 1.0, id="measured"),
    ],
)
def test_a_step_across_nodes_takes_what_the_network_needs(
    bandwidths: tuple[float | None, ...], more: dict[str, Any], factor: float
) -> None:
    assert across(*bandwidths, **more) == pytest.approx(100.0 * factor)


def test_the_more_workers_the_more_goes_around_the_ring() -> None:
    fillers = [TraceJob(f"in the way {k}", 0.0, 1000.0, 3) for k in range(2)]
    curve = SpeedUp([1.0, 2.0, 3.0, 4.0])
    job = TraceJob("a", 0.0, 100.0, 4, speedup=curve, model_bytes=500e6, step_seconds=0.5)
    assert times(run([*fillers, job], cluster(8.0, 8.0, gpus=5)))[3] == pytest.approx(100.0 * (1 + 1.5 * 0.5 / 0.5))


def test_a_job_that_no_node_could_hold_was_recorded_across_nodes() -> None:
    assert times(run([TraceJob("a", 0.0, 100.0, 4)], cluster(1.0, 1.0, gpus=2))) == {1: pytest.approx(100.0)}


@pytest.mark.parametrize(("bandwidth", "gains"), [(ONE_GIGABYTE, True), (10_000.0, False)])
def test_packing_and_consolidating_gain_what_the_network_costs(bandwidth: float, gains: bool) -> None:
    together = [TraceJob(str(k), 0.0, 100.0, 2) for k in range(4)]
    nodes = cluster(*[bandwidth] * 4, gpus=2)
    packed, spread = (run(together, nodes, stages={"place": name}).summary() for name in ("pack", "k8s-default"))
    assert (packed["avg_jct"] < 0.9 * spread["avg_jct"]) is gains
    jobs = [TraceJob(f"short {k}", 0.0, 50.0, 1) for k in range(2)]
    jobs += [TraceJob(f"held {k}", 0.0, 400.0, 1) for k in range(2)] + [TraceJob("long", 1.0, 20_000.0, 2)]
    stages = [{"place": "k8s-default", "migrate": name} for name in ("none", "consolidate")]
    nodes = cluster(bandwidth, bandwidth, gpus=2)
    left, moved = (times(run(jobs, nodes, stages=one, restart_cost=5.0))[5] for one in stages)
    assert (moved < 0.9 * left) is gains


@pytest.mark.parametrize("bandwidth", [0.1, 10_000.0])
def test_without_the_oracle_a_policy_does_not_know_the_network(bandwidth: float) -> None:
    told = []
    for facts in (LearnedFacts(), OracleFacts()):
        policy, nodes = build_policy("fifo"), nodes_from_list(cluster(bandwidth, bandwidth, gpus=2))
        simulation = Simulation(Workload("t", [TraceJob("a", 0.0, 100.0, 2)]), nodes, policy, None, facts)
        simulation.step(0.0)
        told.append(facts.locality_penalty(simulation.state.jobs[JobId(1)]))
    guessed, true = told
    assert guessed == ASSUMED_PENALTY, "as live"
    assert (true > 0.9) is (bandwidth < 1)


@pytest.mark.parametrize("bandwidth", ["fast", 0, -1, True, float("nan"), float("inf")])
def test_a_bandwidth_that_is_none_is_refused(bandwidth: object) -> None:
    with pytest.raises(InvalidSpec, match=r"cluster\[0\]\.bandwidth: .* is no bandwidth"):
        nodes_from_list([{"gpus": 1, "bandwidth": bandwidth}])
