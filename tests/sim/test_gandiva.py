"""Gandiva's grow-shrink, where jobs grow into devices that would lie idle, and its packing of two jobs on one."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.domain.ids import JobId
from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.core.policies.packing import TRIAL, Candidate, Pairs
from schedulearn.lab.sim.cluster import parse_cluster
from schedulearn.lab.sim.engine import SimOptions, Simulation
from schedulearn.lab.sim.learned import LearnedFacts
from schedulearn.lab.sim.packing import INTERFERENCE
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


# --- two jobs on one device


def ends(jobs: Sequence[TraceJob], preset: str = "gandiva-pack", cluster: str = "1x1", **options: Any) -> list[float]:
    policy = build_policy(preset, params={"quantum": 30})
    result = Simulation(Workload("t", jobs), parse_cluster(cluster), policy, SimOptions(**options)).run()
    found = {job.serial: job.ended for job in result.jobs}
    return [found[serial] for serial in sorted(found)]


def alike(count: int, use: float | None, gpus: int = 1) -> list[TraceJob]:
    return [TraceJob(str(k), 0.0, 600.0, gpus, gpu_use=use) for k in range(count)]


@pytest.mark.parametrize(
    ("use", "together"),
    [
        pytest.param(0.5, 0.95, id="there is enough for both"),
        pytest.param(0.25, 0.95, id="and to spare"),
        pytest.param(0.625, 0.95 * 0.8, id="they ask for more than there is, and still gain"),
    ],
)
def test_two_jobs_that_leave_a_device_idle_run_at_once(use: float, together: float) -> None:
    """The first turn is one's own; once it shows what the second uses they are together, whosever turn it is."""
    in_turn, at_once = ends(alike(2, use), "gandiva"), ends(alike(2, use))
    assert in_turn[1] == pytest.approx(1200.0)
    alone, beside = 30.0 + TRIAL, (600.0 - 30.0) / together
    assert at_once[0] == pytest.approx(alone + beside)
    assert at_once[1] == pytest.approx(alone + beside + 600.0 - TRIAL - beside * together)


def test_a_pair_that_gains_nothing_is_parted_and_not_tried_again() -> None:
    lost = (10.0 + TRIAL) * INTERFERENCE  # of work: in the trial, and in 10 s of one that a turn's end broke off
    assert max(ends(alike(2, 1.0))) == pytest.approx(1200.0 + lost)
    assert max(ends(alike(2, None))) == pytest.approx(1200.0 + lost), "a trace that says nothing gains nothing"
    assert max(ends(alike(2, None), gpu_use=0.5)) < 700.0, "unless that is assumed"


def formed(pairs: Pairs, running: dict[int, float], suspended: dict[int, float]) -> dict[int, int]:
    """Guests and their hosts, of jobs with these uses."""
    some = ([Candidate(JobId(job), "here", use) for job, use in uses.items()] for uses in (running, suspended))
    list(pairs.form(*some, now=0.0))
    return {int(guest): int(host) for guest, host in pairs.hosts.items()}


def test_who_uses_least_comes_together_first() -> None:
    assert formed(Pairs(), {1: 0.5, 2: 0.2}, {3: 0.9, 4: 0.1, 5: 0.95}) == {4: 2, 3: 1}


def test_nobody_has_two_guests_or_two_hosts() -> None:
    pairs = Pairs()
    assert formed(pairs, {1: 0.1}, {2: 0.1}) == formed(pairs, {1: 0.1, 4: 0.1}, {2: 0.1}) == {2: 1}
    assert formed(pairs, {1: 0.1}, {2: 0.1, 3: 0.1}) == {2: 1}


def test_how_long_a_packed_job_takes_alone_is_what_is_learned_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    worked: list[float] = []
    monkeypatch.setattr(LearnedFacts, "ended", lambda _, model, now: worked.append(model.job.worked.at(now)))
    policy, jobs = build_policy("gandiva-pack", params={"quantum": 30}), alike(3, 0.4)
    Simulation(Workload("t", jobs), parse_cluster("1x1"), policy, None, LearnedFacts()).run()
    assert worked == pytest.approx([600.0] * 3)


def test_jobs_of_different_sizes_do_not_share_devices() -> None:
    jobs = [TraceJob("wide", 0.0, 600.0, 2, gpu_use=0.1), TraceJob("narrow", 0.0, 600.0, 1, gpu_use=0.1)]
    assert ends(jobs, cluster="1x2") == ends(jobs, "gandiva", cluster="1x2")


def test_a_guest_that_ends_leaves_its_host_alone() -> None:
    short, long = TraceJob("s", 0.0, 60.0, 1, gpu_use=0.4), TraceJob("l", 0.0, 600.0, 1, gpu_use=0.4)
    found = ends([short, long])
    beside = (60.0 - 30.0) / 0.95
    assert found[0] == pytest.approx(30.0 + TRIAL + beside)
    assert found[1] == pytest.approx(30.0 + TRIAL + beside + 600.0 - TRIAL - 0.95 * beside)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.floats(0, 300), st.floats(1, 900), st.integers(1, 2), st.floats(0.05, 1.0)), max_size=12))
def test_together_no_more_is_done_than_there_is(rows: list[tuple[float, float, int, float]]) -> None:
    """However they pair up: all end, none before it could alone, and no device gives more than all of itself."""
    jobs = [TraceJob(str(k), at, seconds, gpus, gpu_use=use) for k, (at, seconds, gpus, use) in enumerate(rows)]
    policy = build_policy("gandiva-pack", params={"quantum": 30})
    result = Simulation(
        Workload("t", jobs), parse_cluster("1x2"), policy, SimOptions(restart_cost=10.0), LearnedFacts()
    ).run()
    assert len(result.jobs) == len(jobs)
    for done in result.jobs:
        assert done.jct >= jobs[done.serial - 1].duration - 1e-6
    if jobs:
        asked = sum(job.duration * job.gpus * (job.gpu_use or 1.0) for job in jobs)
        makespan = max(done.ended for done in result.jobs) - min(job.arrival for job in jobs)
        assert asked <= 2 * makespan + 1e-6
