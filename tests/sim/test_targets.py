"""Targets in the simulator."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.learning import LearningCurve
from schedulearn.core.domain.spec import Target
from schedulearn.core.policies.catalogue.presets import PRESETS, build_policy
from schedulearn.lab.sim.cluster import nodes_from_list
from schedulearn.lab.sim.engine import SimOptions, Simulation
from schedulearn.lab.sim.learned import LearnedFacts
from schedulearn.lab.sim.metrics import Result
from schedulearn.lab.traces.registry import load
from schedulearn.lab.traces.types import TraceJob, Workload

# 0.5 is reached with the values 0.5 and 0.4: when 60 % of the work is done.
CURVE = LearningCurve([(k / 10, round(1.0 - k / 10, 6)) for k in range(1, 11)])


def gpu_job(at: float, seconds: float, target: Target | None = None) -> TraceJob:
    return TraceJob(f"{at:g}", at, seconds, 1, learning=CURVE, target=target)


def run(*jobs: TraceJob, policy: str = "fifo", node: dict[str, Any] | None = None, **options: Any) -> Result:
    nodes = nodes_from_list([node or {"gpus": 1}])
    return Simulation(Workload("t", jobs), nodes, build_policy(policy), SimOptions(timeline=True, **options)).run()


def ends(result: Result) -> list[float]:
    return [job.ended for job in sorted(result.jobs, key=lambda job: job.serial)]


def test_one_that_stops_ends_there_and_the_next_one_starts() -> None:
    result = run(gpu_job(0.0, 100.0, Target(0.5, "stop")), gpu_job(0.0, 10.0))
    assert ends(result) == pytest.approx([60.0, 70.0])
    (written,) = result.notes
    assert (written.at, written.note.kind, written.note.job) == (pytest.approx(60.0), "target_reached", 1)


def test_one_that_yields_makes_way_and_goes_on_later() -> None:
    result = run(gpu_job(0.0, 100.0, Target(0.5)), gpu_job(10.0, 10.0), gpu_job(20.0, 10.0))
    assert ends(result) == pytest.approx([120.0, 70.0, 80.0])
    assert [job.preemptions for job in sorted(result.jobs, key=lambda job: job.serial)] == [1, 0, 0]


def test_a_target_that_is_never_reached_changes_nothing() -> None:
    assert ends(run(gpu_job(0.0, 100.0, Target(-1.0, "stop")), gpu_job(0.0, 10.0))) == pytest.approx([100.0, 110.0])


def test_it_is_reached_by_work_not_by_time() -> None:
    """Two jobs share two cores; each goes at half its speed."""
    job = TraceJob("a", 0.0, 100.0, 0, cpus=2.0, learning=CURVE, target=Target(0.5, "stop"))
    other = TraceJob("b", 0.0, 100.0, 0, cpus=2.0)
    assert ends(run(job, other, node={"cpus": 2})) == pytest.approx([120.0, 160.0])


@pytest.mark.parametrize(("preset", "seconds"), [("flowcon", 80.0), ("schedulearn", 400.0)])
def test_from_then_on_the_machine_is_for_others(preset: str, seconds: float) -> None:
    reaches = TraceJob("a", 0.0, 100.0, 0, cpus=2.0, learning=CURVE, target=Target(0.5))
    other = TraceJob("b", 0.0, seconds, 0, cpus=2.0, learning=CURVE)
    result = run(reaches, other, policy=preset, node={"cpus": 2})
    at = next(written.at for written in result.notes if written.note.kind == "target_reached")
    limits = [sample for sample in result.shares if sample.serial == 1 and sample.at >= at]
    assert limits[0].at == at, "at once"
    assert limits[0].limit < 1.0
    without = run(replace(reaches, target=None), other, policy=preset, node={"cpus": 2})
    assert ends(result)[1] < ends(without)[1]


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_all_jobs_end_under_every_preset(preset: str) -> None:
    jobs = [
        TraceJob(str(k), 7.0 * k, 40.0 + k, 1, learning=CURVE, target=Target(0.5, ("yield", "stop")[k % 2]))
        for k in range(12)
    ]
    nodes, facts = nodes_from_list([{"gpus": 2, "cpus": 4}] * 2), LearnedFacts()
    options = SimOptions(restart_cost=1.0, checkpoint_every=5.0)
    result = Simulation(Workload("t", jobs), nodes, build_policy(preset), options, facts).run()
    assert len(result.jobs) == 12
    again = Simulation(Workload("t", jobs), nodes, build_policy(preset), options).run()
    assert len(again.jobs) == 12


def line(**more: Any) -> str:
    return json.dumps({"id": 1, "submitted_at": 0, "run_seconds": 10, "curve": [[0.5, 2.0], [1.0, 1.0]], **more})


def test_a_trace_may_carry_targets(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join([line(target=1.5), line(target=1, then="stop"), line()]))
    assert [job.target for job in load(str(path)).jobs] == [Target(1.5), Target(1.0, "stop"), None]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"target": "low"}, "target is not a number"),
        ({"target": 1, "then": "party"}, "then must be yield or stop"),
        ({"target": 1, "curve": None}, "target is for jobs with a curve"),
    ],
)
def test_a_wrong_target_of_a_trace_is_named(tmp_path: Path, fields: dict[str, Any], words: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(line(**fields) + "\n")
    with pytest.raises(InvalidSpec, match=words):
        load(str(path), strict=True)
