"""What makes decisions quick changes none of them."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.control.allocation import AllocationPass
from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.core.policies.catalogue.presets import PRESETS, build_policy
from schedulearn.core.policies.stages import Allocate, Allocation, Policy
from schedulearn.lab.sim.cluster import parse_cluster
from schedulearn.lab.sim.engine import SimOptions, Simulation
from schedulearn.lab.traces.types import TraceJob, Workload

# Curves that rise, that stop rising, and that fall again.
CURVES = [None, SpeedUp([1.0, 1.9, 2.5]), SpeedUp([1.0, 1.5, 1.5, 1.5]), SpeedUp([1.0, 1.8, 1.2, 2.5])]
_job = st.tuples(st.integers(0, 300), st.integers(1, 120), st.integers(1, 4), st.integers(0, 3))
_workloads = st.lists(_job, min_size=1, max_size=16)
_WIDTHS = {"may change": lambda gpus: (1, 2 * gpus), "is fixed": lambda gpus: (gpus, gpus)}


def workload(rows: list[tuple[int, int, int, int]], size: str) -> Workload:
    return Workload(
        "random",
        [
            TraceJob(
                str(i),
                float(at),
                float(duration),
                gpus,
                workers=_WIDTHS[size](gpus),
                speedup=CURVES[curve],
                deadline=at + 2.5 * duration if i % 2 else None,
            )
            for i, (at, duration, gpus, curve) in enumerate(rows)
        ],
    )


class Plain(Allocate):
    """An allocate stage that is always asked, and walks past everybody."""

    def __init__(self, stage: Any) -> None:
        self._stage, self.elastic = stage, stage.elastic

    def allocate(self, allocation: Allocation) -> float | None:
        assert isinstance(allocation, AllocationPass)
        allocation.candidates = allocation._one_by_one  # type: ignore[method-assign]
        allocation.sizes_are_fixed = False
        wake: float | None = self._stage.allocate(allocation)
        return wake


def without_shortcuts(policy: Policy) -> Policy:
    policy.order.running_moves_forward = False
    policy.order.key_holds = lambda job, now, facts: now  # type: ignore[method-assign]
    return replace(policy, allocate=Plain(policy.allocate))


def ends(
    policy: Policy, rows: list[tuple[int, int, int, int]], size: str, cluster: str, options: SimOptions
) -> list[Any]:
    result = Simulation(workload(rows, size), parse_cluster(cluster), policy, options).run()
    return [(job.serial, job.started, job.ended, job.preemptions, job.resizes) for job in result.jobs]


# pollux searches each minute; where there is room for all, jobs are meant to start in between without it.
@pytest.mark.parametrize("preset", sorted(PRESETS.keys() - {"pollux"}))
@settings(max_examples=30, deadline=None)
@given(
    _workloads,
    st.sampled_from(sorted(_WIDTHS)),
    st.sampled_from(["2x2", "4x4"]),
    st.sampled_from([SimOptions(), SimOptions(restart_cost=5.0)]),
)
def test_with_and_without(
    preset: str, rows: list[tuple[int, int, int, int]], size: str, cluster: str, options: SimOptions
) -> None:
    params = {"quantum": "20"} if preset == "gandiva" else {"thresholds": "60"} if preset.startswith("tiresias") else {}
    quick = build_policy(preset, None, params)
    slow = without_shortcuts(build_policy(preset, None, params))
    assert ends(quick, rows, size, cluster, options) == ends(slow, rows, size, cluster, options)


def test_a_deadline_that_is_lost_while_its_job_waits() -> None:
    """At 70 s the second job can no longer make it, so the third goes first."""
    rows = [(100.0, 100.0), (50.0, 120.0), (30.0, 200.0)]
    jobs = [TraceJob(str(k), 0.0, duration, 1, deadline=deadline) for k, (duration, deadline) in enumerate(rows)]
    result = Simulation(Workload("t", jobs), parse_cluster("1x1"), build_policy("edf")).run()
    assert [(job.serial, job.ended) for job in result.jobs] == [(1, 100.0), (3, 130.0), (2, 180.0)]
