"""The policy that the documentation shows is a policy."""

import re
from pathlib import Path

import pytest

from schedulearn.core.policies.presets import build_policy
from schedulearn.lab.sim.cluster import parse_cluster
from schedulearn.lab.sim.engine import SimOptions, Simulation
from schedulearn.lab.traces.registry import load
from schedulearn.lab.traces.types import TraceJob, Workload

PAGE = Path(__file__).parents[2] / "docs" / "writing-policies.md"


def example(number: int, folder: Path) -> Path:
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[number]
    file = folder / "example.py"
    file.write_text(code)
    return file


def test_the_share_stage_gives_the_first_half_of_the_machine(tmp_path: Path) -> None:
    policy = build_policy("fifo", {"share": f"{example(1, tmp_path)}:Half"}, files=True)
    jobs = [TraceJob(str(i), 0.0, 30.0, 0, cpus=4.0) for i in range(3)]
    result = Simulation(Workload("three", jobs), parse_cluster("1x4c"), policy, SimOptions(timeline=True)).run()
    assert [job.ended for job in result.jobs] == pytest.approx([90.0, 90.0, 90.0]), "half is more than a third"
    assert next(sample.limit for sample in result.shares if sample.serial == 1) == 2.0


def test_the_example_runs_and_favours_who_has_had_least(tmp_path: Path) -> None:
    file = example(0, tmp_path)
    assert len(file.read_text().splitlines()) <= 30
    policy = build_policy("fifo", {"order": f"{file}:LeastLoved"}, files=True)
    workload = load("synthetic:philly?jobs=200&load=2&seed=1", gpus=8)
    result = Simulation(workload, parse_cluster("2x4"), policy).run()
    assert len(result.jobs) + len(result.impossible) == 200
    assert len({job.user for job in workload.jobs}) > 1
