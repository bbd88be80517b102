"""The policy that the documentation shows is a policy."""

import re
from pathlib import Path

from schedulearn.policies.presets import build_policy
from schedulearn.sim.cluster import parse_cluster
from schedulearn.sim.engine import Simulation
from schedulearn.traces.registry import load

PAGE = Path(__file__).parents[2] / "docs" / "writing-policies.md"


def test_the_example_runs_and_favours_who_has_had_least(tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert code
    assert len(code[1].splitlines()) <= 30
    file = tmp_path / "least_loved.py"
    file.write_text(code[1])
    policy = build_policy("fifo", {"order": f"{file}:LeastLoved"}, files=True)
    workload = load("synthetic:philly?jobs=200&load=2&seed=1", gpus=8)
    result = Simulation(workload, parse_cluster("2x4"), policy).run()
    assert len(result.jobs) + len(result.impossible) == 200
    assert len({job.user for job in workload.jobs}) > 1
