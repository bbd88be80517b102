"""How the service finds out that a target is reached, and that it stays so."""

from typing import Any

import pytest

from schedulearn.core.domain.spec import Preemptible, Target
from schedulearn.service.common.config import DataFolder
from schedulearn.store import Point, Store
from support.builders import KILLED
from support.clock import HandClock
from support.scheduling import Bench


@pytest.fixture
def bench(store: Store, folder: DataFolder, clock: HandClock) -> Bench:
    return Bench(store, folder, clock)


def report(bench: Bench, job: Any, *values: float, seq: int = 1, rank: int = 0) -> None:
    points = [Point(seq + i, bench.clock.now(), seq + i, "loss", value) for i, value in enumerate(values)]
    bench.store.add_points(job, bench.job(job).attempt, rank, "report", points)


def test_it_is_seen_within_two_seconds_and_the_job_ends_well(bench: Bench) -> None:
    job = bench.running(target=Target(0.5, "stop"))
    report(bench, job, 0.9, 0.4)
    bench.cycle(2.0)
    assert bench.job(job).reached_at is None, "two values are too few"
    report(bench, job, 0.5, seq=3)
    assert bench.cycle(1.0) == [], "not before the next look"
    assert ("stop", f"{job}.1.0", 30.0) in [call[:3] for call in bench.cycle(1.0)]
    assert bench.state(job) == "stopping"
    bench.exited(f"{job}.1.0", KILLED)
    bench.cycle()
    assert bench.state(job) == "succeeded"
    assert "target_reached" in bench.story(job)


def test_what_is_reached_survives_a_restart_and_is_not_told_again(bench: Bench) -> None:
    job = bench.running(target=Target(0.5), preemptible=Preemptible.YES)
    report(bench, job, 0.4, 0.4, 0.4)
    bench.cycle(2.0)
    at = bench.job(job).reached_at
    assert at == bench.clock.now()
    bench.live()
    report(bench, job, 0.3, seq=4)
    bench.cycle(5.0)
    assert bench.job(job).reached_at == at
    assert bench.scheduler.state.jobs[job].yields
    assert bench.story(job).count("target_reached") == 1
    bench.ask("update", job, target={"value": 0.1, "then": "stop"})
    bench.cycle()
    bench.live()
    kept = bench.scheduler.state.jobs[job]
    assert (kept.spec.target, kept.reached_at) == (Target(0.1, "stop"), None)
    bench.ask("update", job, target=None)
    bench.cycle()
    bench.live()
    assert bench.scheduler.state.jobs[job].spec.target is None


def test_a_service_that_dies_while_it_stops_it_goes_on_with_that(bench: Bench) -> None:
    job = bench.running(target=Target(0.5, "stop"))
    report(bench, job, 0.4, 0.4, 0.4)
    bench.cycle(2.0)
    bench.live()
    bench.exited(f"{job}.1.0", KILLED)
    bench.cycle()
    assert bench.state(job) == "succeeded"


def test_nobody_is_asked_for_who_has_no_target_or_reached_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    found = bench.store.latest_values
    monkeypatch.setattr(bench.store, "latest_values", lambda *args: asked.append(args) or found(*args))
    bench.running()
    bench.cycle(10.0)
    assert asked == []
    job = bench.running(target=Target(0.5))
    for _ in range(5):
        bench.cycle(0.5)
    assert [list(metrics) for metrics, _ in asked] == [[job]], "one look in two seconds"
    report(bench, job, 0.4, 0.4, 0.4)
    bench.cycle(2.0)
    bench.cycle(10.0)
    assert len(asked) == 2
