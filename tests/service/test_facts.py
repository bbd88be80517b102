"""What the live service knows of jobs, and that it does not go stale in a process that learns nothing itself."""

import math

import pytest

from schedulearn.domain.ids import JobId
from schedulearn.service.config import DataFolder
from schedulearn.service.explainer import Explainer
from schedulearn.service.facts import LiveFacts
from schedulearn.store import Point, Store
from support.builders import BROKEN
from support.clock import HandClock
from support.scheduling import Bench


@pytest.fixture
def bench(store: Store, folder: DataFolder, clock: HandClock) -> Bench:
    return Bench(store, folder, clock)


def ran(bench: Bench, seconds: float) -> None:
    """A job that ran for so long on all cores, and succeeded."""
    job = bench.running(cpus=2)
    bench.clock.pass_time(seconds)
    bench.exited(f"{job}.1.0")
    bench.cycle()


def losses(bench: Bench, job: JobId, steps: int) -> None:
    """It reports a step every second; its loss is flat after 200 · ln 50 of them."""
    began = bench.clock.now()
    points = [Point(k, began + k, k, "loss", 1 + 5 * math.exp(-k / 200)) for k in range(1, steps + 1)]
    bench.store.add_points(job, 1, 0, "report", points)
    bench.clock.pass_time(steps)


FLAT = 200 * math.log(50)


def test_a_loss_that_still_falls_tells_the_time_left(bench: Bench) -> None:
    job = bench.running()
    facts = LiveFacts(bench.store)
    assert facts.remaining(bench.job(job), bench.clock.now()) == math.inf
    losses(bench, job, 400)
    estimate = facts.estimate(bench.job(job), bench.clock.now())
    assert estimate
    assert (estimate.expected, estimate.source) == (pytest.approx(FLAT - 400, rel=0.05), "loss curve")


def test_steps_tell_more_than_a_loss(bench: Bench) -> None:
    job = bench.running(steps=1000)
    losses(bench, job, 400)
    assert LiveFacts(bench.store).remaining(bench.job(job), bench.clock.now()) == pytest.approx(600.0)


def test_a_job_that_waits_again_keeps_what_it_showed(bench: Bench) -> None:
    job = bench.running(steps=1000, max_restarts=1)
    losses(bench, job, 400)
    bench.exited(f"{job}.1.0", BROKEN)
    bench.cycle()
    assert bench.state(job) == "queued"
    assert LiveFacts(bench.store).remaining(bench.job(job), bench.clock.now()) == pytest.approx(600.0)


def test_each_job_is_learned_once(bench: Bench) -> None:
    for _ in range(4):
        ran(bench, 60.0)
        bench.scheduler._facts.duration(bench.job(JobId(1)))
    assert len(bench.scheduler._facts._estimator.history) == 4


def test_what_has_ended_since_is_known_in_another_process(bench: Bench) -> None:
    explainer = Explainer(bench.store, bench.clock)
    holds = bench.running(cpus=2, name="holds")
    waits = bench.submit(cpus=2, name="waits")
    bench.cycle()
    assert explainer.explain(waits).estimate is None, "nobody knows when job 1 ends"
    bench.exited(f"{holds}.1.0")
    bench.cycle()
    for seconds in (100.0, 100.0):
        bench.executor.started(f"{waits}.1.0", bench.clock.now())
        bench.cycle(seconds)
        bench.exited(f"{waits}.1.0")
        waits = bench.submit(cpus=2, name="waits")
        bench.cycle()
    bench.executor.started(f"{waits}.1.0", bench.clock.now())
    bench.cycle()
    last = bench.submit(cpus=2, name="waits")
    bench.cycle()
    known = explainer.explain(last).estimate
    assert known
    assert known.expected == pytest.approx(100.0), "three jobs have ended by now"


def test_nothing_is_read_again_unless_a_job_has_ended(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        ran(bench, 60.0)
    facts = LiveFacts(bench.store)
    job = bench.job(JobId(1))
    assert facts.duration(job) == 60.0
    read = []
    list_jobs = bench.store.list_jobs
    monkeypatch.setattr(bench.store, "list_jobs", lambda *a, **more: (read.append(a), list_jobs(*a, **more))[1])
    facts.refresh()
    assert facts.duration(job) == 60.0
    assert read == [], "the newest is still the same"
    for _ in range(4):
        ran(bench, 90.0)
    facts.refresh()
    assert facts.duration(job) == 90.0
    assert len(read) == 1
