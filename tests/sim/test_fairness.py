"""How each job was treated, against equal shares."""

import csv
import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.lab.sim.cluster import parse_cluster
from schedulearn.lab.sim.engine import Simulation
from schedulearn.lab.sim.export import write_csv
from schedulearn.lab.sim.fairness import Demand, fair_ends
from schedulearn.lab.sim.metrics import Result
from schedulearn.lab.sim.report import page
from schedulearn.lab.sim.run import Request, prepare
from schedulearn.lab.traces.types import TraceJob, Workload


@pytest.mark.parametrize(
    ("jobs", "slots", "ends"),
    [
        ([(0, 10, 1)], 4, [10]),
        ([(0, 10, 8)], 4, [20]),  # wider than all there is
        ([(0, 10, 4), (0, 10, 4)], 4, [20, 20]),
        ([(0, 10, 4), (0, 5, 4)], 4, [15, 10]),
        ([(0, 10, 1), (0, 10, 4)], 4, [10, 12.5]),  # the narrow one leaves three; at the end there are four
        ([(0, 10, 4), (5, 10, 4)], 4, [15, 20]),
        ([(100, 10, 2), (0, 10, 2)], 4, [110, 10]),  # in the order of the trace, not of arrival
        ([(0, 10, 0), (0, 10, 4)], 4, [10, 10]),  # one that needs none of them
        ([(0, 0, 4)], 4, [0]),
    ],
)
def test_equal_shares(jobs: list[tuple[float, float, float]], slots: float, ends: list[float]) -> None:
    assert fair_ends(tuple(Demand(*job) for job in jobs), slots) == pytest.approx(ends)


def shared_naively(jobs: list[Demand], slots: float) -> list[float]:
    """Every job looked at at every event."""
    left, ends, now = [job.duration for job in jobs], [math.inf] * len(jobs), 0.0
    while any(math.isinf(end) for end in ends):
        here = [k for k, job in enumerate(jobs) if job.arrival <= now and math.isinf(ends[k])]
        speeds, free = {}, slots
        for position, k in enumerate(sorted(here, key=lambda k: jobs[k].slots)):
            share = min(jobs[k].slots, free / (len(here) - position))
            speeds[k], free = share / jobs[k].slots, free - share
        coming = [job.arrival for job in jobs if job.arrival > now]
        until = min([*coming, *(now + left[k] / speeds[k] for k in here)])
        for k in here:
            left[k] -= speeds[k] * (until - now)
            if left[k] <= 1e-6:
                ends[k] = until
        now = until
    return ends


demand = st.builds(Demand, st.integers(0, 100), st.integers(1, 100), st.sampled_from([1, 2, 4, 8]))


@settings(deadline=None)
@given(st.lists(demand, min_size=1, max_size=12), st.integers(1, 8))
def test_as_if_every_job_were_looked_at(jobs: list[Demand], slots: int) -> None:
    assert fair_ends(tuple(jobs), slots) == pytest.approx(shared_naively(jobs, slots), rel=1e-5, abs=1e-4)


def run(*jobs: TraceJob, policy: str = "fifo", cluster: str = "1x1") -> Result:
    return Simulation(Workload("t", jobs), parse_cluster(cluster), build_policy(policy)).run()


def test_a_job_that_waits_behind_a_long_one_is_named() -> None:
    long = TraceJob("long", 0.0, 10_000.0, 1, "ann")
    short = TraceJob("short", 1.0, 100.0, 1, "bob")
    figures = run(long, short).summary()
    assert figures["worst_slowdown"] == pytest.approx((9_999 + 100) / 100)
    assert figures["worst_wait"] == 9_999.0
    assert figures["worst_rho"] == pytest.approx((9_999 + 100) / 200)
    assert (figures["starved"], figures["starved_jobs"]) == (1, ["short"])
    assert [user["user"] for user in figures["users"]] == ["ann", "bob"]
    assert figures["users"][0]["share"] == pytest.approx(10_000 / 10_100)


def test_what_is_too_large_is_neither_starved_nor_in_the_way_of_others() -> None:
    figures = run(TraceJob("huge", 0.0, 1000.0, 8), TraceJob("small", 0.0, 1000.0, 1)).summary()
    assert (figures["starved"], figures["worst_rho"]) == (0, 1.0)


def test_very_short_jobs_do_not_rule_the_slowdown() -> None:
    assert run(TraceJob("a", 0.0, 8.0, 1), TraceJob("b", 0.0, 0.01, 1)).summary()["worst_slowdown"] == 1.0


def test_every_report_tells_it(tmp_path: Path) -> None:
    rows = [{"id": 1, "run_seconds": 10_000, "user": "ann"}, {"id": 2, "run_seconds": 100, "user": "bob"}]
    lines = [json.dumps({**row, "submitted_at": row["id"], "gpus": 1}) + "\n" for row in rows]
    (tmp_path / "trace.jsonl").write_text("".join(lines))
    study = prepare(Request(cluster="1x1", policies=["fifo"], trace=str(tmp_path / "trace.jsonl")))
    result = study.run(study.choices[0])
    text = page(study, [result], [], ["schedulearn"])
    assert "<h2>Fairness</h2>" in text
    assert "Starved under fifo: " in text
    assert "Use by user under fifo" in text
    jobs = write_csv(tmp_path, [(study, result)])[1]
    with jobs.open() as file:
        told = [(row["user"], float(row["slowdown"]), float(row["rho"])) for row in csv.DictReader(file)]
    assert told == [("ann", 1.0, pytest.approx(10_000 / 10_100)), ("bob", 100.99, pytest.approx(50.495))]
