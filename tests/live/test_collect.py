"""What the service tells becomes the data of a run, in the published time."""

from datetime import UTC, datetime
from typing import Any

import pytest

from schedulearn.lab.experiments.runs import Growth, Stay, Use
from schedulearn.lab.live.collect import collect
from schedulearn.lab.live.programs import Pace, steps_of, wait_of
from schedulearn.lab.traces.types import TraceJob, Workload

BEGAN = 1_000_000.0


def at(seconds: float) -> str:
    return datetime.fromtimestamp(BEGAN + seconds, UTC).isoformat()


def look(
    seconds: float, cpus: float, total: float, limit: float | None = None, energy: float | None = None
) -> dict[str, Any]:
    return {"at": at(seconds), "cpus": cpus, "cpu_seconds": total, "cpus_limit": limit, "energy": energy}


class Told:
    """A service that ran two jobs on two cores; the second had two attempts."""

    def nodes(self) -> Any:
        return [{"capacity": {"cpus": 2.0}}]

    def job(self, job: int) -> Any:
        times = {1: (0, 1, 20), 2: (5, 6, 25)}[job]
        submitted, started, finished = map(at, times)
        return {
            **{"id": job, "submitted_at": submitted, "started_at": started, "finished_at": finished},
            **{"migrations": job - 1},
        }

    def attempts(self, job: int) -> Any:
        spans = {1: [(1, 20)], 2: [(6, 10), (12, 25)]}[job]
        return [
            {"workers": [{"worker": f"{job}.{k}.0", "node": "n", "started_at": at(a), "ended_at": at(b)}]}
            for k, (a, b) in enumerate(spans, 1)
        ]

    def usage(self, job: int, attempt: int, max_points: int) -> Any:
        looks = {
            (1, 1): [look(5, 2.0, 8.0), look(15, 1.0, 18.0, 0.5)],
            (2, 1): [look(10, 1.0, 4.0, energy=30.0)],
            (2, 2): [look(20, 0.5, 4.0, energy=12.0)],
        }[job, attempt]
        return [{"worker": f"{job}.{attempt}.0", "latest": looks[-1], "points": looks[-max_points:]}]

    def events(self) -> Any:
        data = {"growth": 0.25, "list": "NL"}
        return [
            {"at": at(0), "job": None, "kind": "policy_set", "cause": "set", "data": {}},
            {"at": at(8), "job": 1, "kind": "share_limit", "cause": "limit none → 1 core", "data": data},
            {"at": at(9), "job": 1, "kind": "share_limit", "cause": "…", "data": {"growth": None}},
        ]


def test_all_of_a_run() -> None:
    workload = Workload("w", [TraceJob(f"{k} m", 0.0, 1.0, 0, name="m") for k in (1, 2)])
    run = collect(Told(), workload, 0, "p", BEGAN, 0.5)  # type: ignore[arg-type]
    assert [(job.arrival, job.started, job.ended, job.migrations) for job in run.jobs] == [
        (0.0, 2.0, 40.0, 0),
        (10.0, 12.0, 50.0, 1),
    ]
    assert [job.energy for job in run.jobs] == [None, 42.0], "of all attempts, where it was measured"
    assert run.use == pytest.approx((18 + 4 + 4) / (2 * 25)), "all attempts count"
    mine = [use for use in run.timeline.uses if use.serial == 1]
    assert mine == [
        Use(2.0, 1, "n", 1.0, 1.0),  # a look tells of the time before it
        Use(10.0, 1, "n", 0.5, 0.25),
        Use(30.0, 1, "n", 0.5, 0.25),
        Use(40.0, 1, "n", 0.0, 1.0),
    ]
    assert run.timeline.stays[1:] == [Stay(2, "n", 12.0, 20.0), Stay(2, "n", 24.0, 50.0)]
    assert run.timeline.growth == [Growth(16.0, 1, 0.125)], "a second of the run is two of the published"
    assert [event.kind for event in run.timeline.events] == ["policy_set", "share_limit", "share_limit"]


def test_only_the_first_seed_has_a_timeline() -> None:
    workload = Workload("w", [TraceJob(f"{k} m", 0.0, 1.0, 0, name="m") for k in (1, 2)])
    assert not collect(Told(), workload, 1, "p", BEGAN, 0.5).timeline.events  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seconds", "cpus", "steps", "wait"),
    [(12.0, 2.0, 1000, 0.0), (12.0, 0.4, 200, 0.04), (2.05, 2.0, 20, 0.0), (1.0, 2.0, 20, 0.0)],
)
def test_how_many_steps(seconds: float, cpus: float, steps: int, wait: float) -> None:
    """A step of 10 ms after a start of 2 s, on two cores."""
    trace, pace = TraceJob("1 m", 0.0, seconds, 0, cpus=cpus), Pace(2.0, 0.01)
    assert steps_of(trace, pace, 2.0) == steps
    assert wait_of(trace, pace, 2.0) == pytest.approx(wait)
