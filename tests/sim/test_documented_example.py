"""The policy that the documentation shows is a policy."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from schedulearn import policy as policy_module
from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.lab.sim.cluster import parse_cluster
from schedulearn.lab.sim.engine import SimOptions, Simulation
from schedulearn.lab.traces.registry import load
from schedulearn.lab.traces.types import TraceJob, Workload

PAGE = Path(__file__).parents[2] / "docs" / "writing-policies.md"


def example(name: str, folder: Path) -> Path:
    """The example that begins with the name of its file."""
    codes = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file = folder / name
    file.write_text(next(code for code in codes if code.startswith(f'"""{name}:')))
    return file


def test_the_share_stage_gives_the_first_half_of_the_machine(tmp_path: Path) -> None:
    policy = build_policy("fifo", {"share": f"{example('half.py', tmp_path)}:Half"}, files=True)
    jobs = [TraceJob(str(i), 0.0, 30.0, 0, cpus=4.0) for i in range(3)]
    result = Simulation(Workload("three", jobs), parse_cluster("1x4c"), policy, SimOptions(timeline=True)).run()
    assert [job.ended for job in result.jobs] == pytest.approx([90.0, 90.0, 90.0]), "half is more than a third"
    assert next(sample.limit for sample in result.shares if sample.serial == 1) == 2.0


def test_the_example_runs_and_favours_who_has_had_least(tmp_path: Path) -> None:
    file = example("least_loved.py", tmp_path)
    assert len(file.read_text().splitlines()) <= 30
    policy = build_policy("fifo", {"order": f"{file}:LeastLoved"}, files=True)
    workload = load("synthetic:philly?jobs=200&load=2&seed=1", gpus=8)
    result = Simulation(workload, parse_cluster("2x4"), policy).run()
    assert len(result.jobs) + len(result.impossible) == 200
    assert len({job.user for job in workload.jobs}) > 1


def test_what_is_only_assumed_is_not_trusted(tmp_path: Path) -> None:
    stages = {"allocate": f"{example('careful.py', tmp_path)}:Careful"}
    policy = build_policy("fifo", stages, {"settle": "2m", "least_gain": "0.25"}, files=True)
    curve = SpeedUp(range(1, 9))
    jobs = [TraceJob("assumed", 0.0, 80.0, 2, workers=(1, 8)), TraceJob("measured", 0.0, 80.0, 2, workers=(1, 8))]
    alone = [Workload(job.label, [job]) for job in (jobs[0], replace(jobs[1], speedup=curve))]
    ends = [Simulation(workload, parse_cluster("1x8"), policy).run().jobs[0].ended for workload in alone]
    assert ends == [80.0, 20.0]


def test_jobs_of_one_user_are_apart(tmp_path: Path) -> None:
    policy = build_policy("fifo", {"place": f"{example('apart.py', tmp_path)}:Apart"}, files=True)
    jobs = [TraceJob(str(i), float(i), 50.0, 1, user="ann") for i in range(3)]
    result = Simulation(Workload("three", jobs), parse_cluster("3x2"), policy, SimOptions(timeline=True)).run()
    assert len({segment.node for segment in result.segments}) == 3


@pytest.mark.parametrize(
    ("params", "field"), [({"settle": "soon"}, "params.settle"), ({"least_gain": "much"}, "params.least_gain")]
)
def test_a_parameter_is_read_by_its_type(tmp_path: Path, params: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        build_policy("fifo", {"allocate": f"{example('careful.py', tmp_path)}:Careful"}, params, files=True)
    assert caught.value.field == field


def test_the_page_names_all_that_an_author_can_import() -> None:
    """What a policy may import is used by an example, or named on the page."""
    text = PAGE.read_text()
    assert [name for name in policy_module.__all__ if not re.search(rf"\b{name}\b", text)] == []
