"""What the live service knows of jobs, and that it does not go stale in a process that learns nothing itself."""

import math

import pytest

from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.core.domain.usage import Limits, Usage
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.service.common.config import DataFolder
from schedulearn.service.gateway.explainer import Explainer
from schedulearn.service.learn.facts import LiveFacts
from schedulearn.store import Point, Store, UsageSample
from support.builders import BROKEN
from support.clock import HandClock
from support.scheduling import Bench


@pytest.fixture
def bench(store: Store, folder: DataFolder, clock: HandClock) -> Bench:
    return Bench(store, folder, clock)


def ran(bench: Bench, seconds: float, **spec: object) -> None:
    """A job that ran for so long on all cores, and succeeded."""
    job = bench.running(cpus=2, **spec)
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


def test_twice_the_epochs_on_the_command_line_take_twice_as_long(bench: Bench) -> None:
    for epochs in (1, 2, 3, 4, 5):
        ran(bench, 60.0 * epochs, name="train", command=f"python train.py --epochs {epochs}")
    job = bench.running(cpus=2, name="train", command="python train.py --epochs 10")
    facts = LiveFacts(bench.store)
    assert facts.duration(bench.job(job)) == pytest.approx(600.0)
    bench.clock.pass_time(100.0)
    estimate = facts.estimate(bench.job(job), bench.clock.now())
    assert estimate
    assert (estimate.expected, estimate.source) == (
        pytest.approx(500.0),
        "jobs of the same name, adjusted to its numbers",
    )


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


# --- jobs that a limit holds back


def trains(bench: Bench, job: JobId, until: int, cores: float, limit: float | None = None, attempt: int = 1) -> None:
    """It goes on to this step; each takes two core-seconds. It is looked at every 10 s of that."""
    row = bench.store.job(job)
    assert row
    known = bench.store.usage_of(job, attempt)
    step, cpu = row.progress.step if row.progress else 0, known[0].latest.cpu_seconds if known else 0.0
    while step < until:
        bench.clock.pass_time(10)
        step, cpu = step + round(5 * cores), cpu + 10 * cores
        report = [Point(step, bench.clock.now(), step, "loss", 1.0)]
        bench.store.add_points(job, attempt, 0, "report", report)
        usage = Usage(bench.clock.now(), cpu, limits=Limits(cpus=limit))
        bench.store.add_usage([UsageSample(WorkerId(job, attempt, 0), usage, cores)])
        bench.scheduler._facts.remaining(bench.job(job), bench.clock.now())


@pytest.mark.parametrize("total", [{"steps": 1000}, {}], ids=["steps", "loss"])
def test_a_job_that_is_held_back_is_not_longer(bench: Bench, total: dict[str, int]) -> None:
    facts, job = bench.scheduler._facts, bench.running(cpus=2, **total)
    trains(bench, job, 100, cores=2.0)
    facts._estimator._estimates._flat = lambda *_: Estimate(1000, 1000, 1000, "loss curve")  # type: ignore[method-assign]
    trains(bench, job, 200, cores=2.0)
    assert facts.remaining(bench.job(job), bench.clock.now()) == pytest.approx(800)
    trains(bench, job, 300, cores=0.2, limit=0.2)
    assert facts.remaining(bench.job(job), bench.clock.now()) == pytest.approx(700, rel=0.03)
    trains(bench, job, 400, cores=2.0)
    assert facts.remaining(bench.job(job), bench.clock.now()) == pytest.approx(600, rel=0.03), "free again"


def test_one_that_was_never_free_would_use_all_that_its_user_allows(bench: Bench) -> None:
    facts, job = bench.scheduler._facts, bench.running(cpus=2, steps=1000)
    trains(bench, job, 100, cores=0.2, limit=0.2)
    assert facts.remaining(bench.job(job), bench.clock.now()) == pytest.approx(900, rel=0.03)


def test_a_limit_that_is_not_reached_holds_nobody(bench: Bench) -> None:
    """It waits for its input most of the time."""
    facts, job = bench.scheduler._facts, bench.running(cpus=2, steps=1000)
    trains(bench, job, 100, cores=0.2, limit=1.0)
    assert facts.remaining(bench.job(job), bench.clock.now()) == pytest.approx(9000)


def test_what_its_user_allows_is_no_limit_in_its_way(bench: Bench) -> None:
    facts, job = bench.scheduler._facts, bench.running(cpus=2, steps=1000)
    bench.ask("update", job, cpus_limit=0.2)
    bench.cycle()
    trains(bench, job, 100, cores=0.2, limit=0.2)
    assert facts.remaining(bench.job(job), bench.clock.now()) == pytest.approx(9000)


def test_nor_is_it_longer_after_a_restart(bench: Bench) -> None:
    facts, job = bench.scheduler._facts, bench.running(cpus=2, steps=1000, max_restarts=1)
    trains(bench, job, 100, cores=2.0)
    trains(bench, job, 200, cores=0.2, limit=0.2)
    bench.exited(f"{job}.1.0", BROKEN)
    bench.cycle()
    assert facts.remaining(bench.job(job), bench.clock.now()) == pytest.approx(800, rel=0.03), "while it waits"
    bench.cycle(3600)
    bench.executor.started(f"{job}.2.0", bench.clock.now())
    bench.cycle()
    trains(bench, job, 201, cores=0.2, limit=0.2, attempt=2)
    assert facts.remaining(bench.job(job), bench.clock.now()) == pytest.approx(800, rel=0.03), "at its first step"
    trains(bench, job, 300, cores=0.2, limit=0.2, attempt=2)
    assert facts.remaining(bench.job(job), bench.clock.now()) == pytest.approx(700, rel=0.03)


def test_many_jobs_are_looked_at_in_two_queries(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [bench.running(cpus=0.1, steps=100) for _ in range(10)]
    for job in jobs:
        trains(bench, job, 10, cores=2.0)
    bench.clock.pass_time(10)
    asked: list[str] = []
    for name in ("list_jobs", "usage_now", "usage_of", "job", "curve"):
        real = getattr(bench.store, name)
        monkeypatch.setattr(bench.store, name, lambda *a, n=name, f=real, **m: (asked.append(n), f(*a, **m))[1])
    facts, held = bench.scheduler._facts, [bench.scheduler.state.jobs[number] for number in jobs]
    for job in held:
        facts.remaining(job, bench.clock.now())
    assert asked == ["list_jobs", "usage_now"]
