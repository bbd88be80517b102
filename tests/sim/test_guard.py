"""The starvation guard under orders that pre-empt: it takes no place, so nothing goes round in circles."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.domain.spec import JobSpec, Preemptible, WorkerResources, Workers
from schedulearn.core.policies.catalogue.presets import PRESETS, build_policy
from schedulearn.lab.sim.cluster import parse_cluster
from schedulearn.lab.sim.engine import Simulation
from schedulearn.lab.traces.types import TraceJob, Workload

PREEMPTIVE = [
    name for name, preset in PRESETS.items() if preset.allocate == "rigid" and build_policy(name).order.preemptive
]
_GPU = WorkerResources(gpus=1, cpus_min=0.0, cpus_max=0.0)


class Stubborn:
    """Specs like the simulator's own, but jobs of this user may not be interrupted."""

    def spec(self, trace: TraceJob) -> JobSpec:
        asked = Preemptible.NO if trace.user == "stubborn" else Preemptible.YES
        workers = Workers(trace.gpus, trace.gpus, trace.gpus)
        return JobSpec("trace", (), workers=workers, resources=_GPU, preemptible=asked)


class Watched(Simulation):
    """Notes who is where after each step, where that has changed."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.log: list[tuple[float, list[Any]]] = []

    def step(self, now: float) -> None:
        super().step(now)
        there = sorted((job.id, job.placements) for job in self.state.jobs.values() if job.placements)
        if not self.log or self.log[-1][1] != there:
            self.log.append((now, there))


def simulate(jobs: list[TraceJob], preset: str, cluster: str, stubborn: bool = False, **params: Any) -> Watched:
    simulation = Watched(Workload("made up", jobs), parse_cluster(cluster), build_policy(preset, None, params))
    if stubborn:
        simulation._specs = Stubborn()  # type: ignore[assignment]
    result = simulation.run()
    assert len(result.jobs) == len(jobs), "no job starves under a finite workload"
    return simulation


def crowd() -> list[TraceJob]:
    """Hours of small jobs that come all the time, and some large ones that do not fit beside them."""
    small = [
        TraceJob(f"s{k}", 400.0 * k, 500.0 + 700.0 * (k * 7 % 5), 1 + k % 2, deadline=400.0 * k + 5000.0)
        for k in range(60)
    ]
    large = [
        TraceJob(f"l{k}", 900.0 + 3000.0 * k, 6000.0 + 500.0 * k, 3 + k % 2, deadline=30_000.0 + 9000.0 * k)
        for k in range(5)
    ]
    return [*small, *large]


@pytest.mark.parametrize("preset", PREEMPTIVE)
def test_the_guard_changes_nothing_where_everybody_can_be_interrupted(preset: str) -> None:
    """Once it did, and the reservation and the pre-emption took each other's place for ever."""
    by_default = simulate(crowd(), preset, "2x2")
    without = simulate(crowd(), preset, "2x2", starvation_guard="off")
    longest = max(job.started - job.arrival for job in without.recorder._jobs)
    assert longest > 3600 or build_policy(preset).order.suspends, "the guard has a reason, unless all take turns"
    assert by_default.log == without.log


_rows = st.lists(
    st.tuples(st.integers(0, 200), st.integers(1, 120), st.integers(1, 4), st.booleans()), min_size=1, max_size=16
)


@pytest.mark.parametrize("preset", PREEMPTIVE)
@given(rows=_rows, guard=st.sampled_from([1, 30]))
@settings(max_examples=30, deadline=None)
def test_whoever_may_be_interrupted_every_job_ends(preset: str, rows: Any, guard: int) -> None:
    jobs = [
        TraceJob(str(k), float(arrival), float(duration), gpus, user="stubborn" if stubborn else "")
        for k, (arrival, duration, gpus, stubborn) in enumerate(rows)
    ]
    simulate(jobs, preset, "2x2", stubborn=True, starvation_guard=guard)


@pytest.mark.parametrize(
    ("guard", "latest"),
    [("1h", 10.0 + 3600.0 + 1000.0 + 100.0), ("off", float("inf"))],
)
def test_a_large_job_is_not_passed_for_ever_by_small_ones_that_cannot_be_interrupted(guard: str, latest: float) -> None:
    """One of two GPUs is free every 500 s. The large job is the shortest of all, and needs both at once."""
    first = TraceJob("first", 0.0, 500.0, 1, user="stubborn")
    small = [TraceJob(f"s{k}", 0.0, 1000.0, 1, user="stubborn") for k in range(40)]
    large = TraceJob("large", 10.0, 100.0, 2, user="stubborn")
    done = simulate([first, *small, large], "srtf", "1x2", stubborn=True, starvation_guard=guard)
    end = next(job.ended for job in done.recorder._jobs if job.gpus == 2)
    assert end <= latest
    assert (end > 15_000) == (guard == "off")
