"""The simulator against one that shares no code with it, and against published figures."""

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.lab.sim.cluster import parse_cluster
from schedulearn.lab.sim.engine import Simulation
from schedulearn.lab.traces.registry import load
from schedulearn.lab.traces.types import TraceJob, Workload
from support.traces import TRACES, needs_traces

sys.path.insert(0, str(Path(__file__).parent))
from reference import simulate

_RULES = {
    "strict": ("fifo", {"allocate": "strict"}, {}),
    "fifo": ("fifo", {}, {"starvation_guard": "off"}),
    "srtf": ("srtf", {}, {"starvation_guard": "off"}),
    "srsf": ("srsf", {}, {"starvation_guard": "off"}),
    "las": ("tiresias", {}, {"starvation_guard": "off", "promote": "off", "thresholds": "60,180"}),
}
_rows = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 60), st.integers(1, 5)), min_size=1, max_size=12)


@pytest.mark.parametrize("rule", _RULES)
@pytest.mark.parametrize("place", ["count", "pack"])
@given(rows=_rows)
@settings(max_examples=80, deadline=None)
def test_every_job_ends_when_the_plain_simulator_says(rule: str, place: str, rows: list[tuple[int, int, int]]) -> None:
    preset, stages, params = _RULES[rule]
    jobs = [TraceJob(str(i), float(a), float(d), g) for i, (a, d, g) in enumerate(rows)]
    policy = build_policy(preset, {**stages, "place": place}, params)
    result = Simulation(Workload("random", jobs), parse_cluster("2x2"), policy).run()
    ours = {job.serial: job.ended for job in result.jobs}
    expected = simulate(rows, slots=4, rule=rule, thresholds=(60, 180) if rule == "las" else ())
    assert [ours.get(i + 1) for i in range(len(rows))] == expected
    assert list(result.impossible) == [
        i + 1 for i in sorted(range(len(rows)), key=lambda i: (rows[i][0], i)) if rows[i][2] > 4
    ]


@needs_traces
@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "stages", "params", "average", "makespan"),
    [
        ("fifo", {"allocate": "strict"}, {}, 366_465.37, 5_573_398),
        ("fifo", {}, {}, 132_189.56, 5_446_066),
        ("srtf", {}, {}, 40_408.90, 5_738_135),
        ("srsf", {}, {}, 41_165.47, 5_920_302),
        ("tiresias", {}, {"promote": "off", "thresholds": "3250,7200"}, 76_815.29, 5_621_295),
    ],
)
def test_elasticflow_cluster06(preset: str, stages: dict, params: dict, average: float, makespan: int) -> None:  # type: ignore[type-arg]
    """Two independent public simulators agree on these."""
    guard = {} if "allocate" in stages else {"starvation_guard": "off"}
    policy = build_policy(preset, {**stages, "place": "count"}, {**params, **guard})
    workload = load(str(TRACES / "elasticflow" / "cluster06.csv"))
    summary = Simulation(workload, parse_cluster("12x8"), policy).run().summary()
    assert (round(summary["avg_jct"], 2), round(summary["makespan"])) == (average, makespan)
