"""Gandiva's grow-shrink: devices that would lie idle are used by jobs that may grow, until others come."""

import pytest

from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.lab.sim.cluster import parse_cluster
from schedulearn.lab.sim.engine import SimOptions, Simulation
from schedulearn.lab.traces.types import TraceJob, Workload


def sizes(preset: str) -> dict[int, list[tuple[float, int]]]:
    """Of each job: how many workers from when on. The second comes at 100 s, the third and fourth at 200 s."""
    arrivals = (0.0, 100.0, 200.0, 200.0)
    jobs = [TraceJob(str(k), at, 1000.0, 1, workers=(1, 4)) for k, at in enumerate(arrivals)]
    policy = build_policy(preset)
    result = Simulation(Workload("t", jobs), parse_cluster("1x4"), policy, SimOptions(timeline=True)).run()
    found: dict[int, list[tuple[float, int]]] = {}
    for run in sorted(result.segments, key=lambda run: run.start):
        found.setdefault(run.serial, []).append((run.start, run.workers))
    return found


def test_a_job_has_all_that_is_idle_and_gives_it_back() -> None:
    found = sizes("gandiva-grow")
    assert found[1][:3] == [(0.0, 4), (100.0, 2), (200.0, 1)]
    assert found[2][:2] == [(100.0, 2), (200.0, 1)]
    assert [found[k][0] for k in (3, 4)] == [(200.0, 1), (200.0, 1)]
    assert max(workers for runs in sizes("gandiva").values() for _, workers in runs) == 1, "plain gandiva does not"


@pytest.mark.parametrize("preset", ["gandiva", "gandiva-grow"])
def test_more_jobs_than_devices_take_turns(preset: str) -> None:
    jobs = [TraceJob(str(k), 0.0, 600.0, 1, workers=(1, 2)) for k in range(4)]
    result = Simulation(Workload("t", jobs), parse_cluster("1x2"), build_policy(preset)).run()
    ends = sorted(job.ended for job in result.jobs)
    assert ends[-1] == pytest.approx(1200.0, abs=1.0)
    assert ends[0] > 900.0, "none ends long before the others"
