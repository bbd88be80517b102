"""What restarts really cost: measured on a real store, kept in it, and used to decide."""

import pytest

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.spec import Preemptible
from schedulearn.service.common.config import DataFolder
from schedulearn.store import Point, Store
from support.builders import KILLED
from support.clock import HandClock
from support.scheduling import Bench

GUESS = 10.0


@pytest.fixture
def bench(store: Store, folder: DataFolder, clock: HandClock) -> Bench:
    """Two cores, and jobs that take turns on them as they grow and shrink."""
    bench = Bench(store, folder, clock)
    bench.ask("policy", preset="elastic-fifo", stages={}, params={})
    bench.cycle()
    return bench


def elastic(bench: Bench, **more: object) -> JobId:
    """A job that runs on both cores."""
    job = bench.submit(workers=(1, 1, 2), preemptible=Preemptible.YES, **more)
    bench.cycle()
    start(bench, job, 1)
    assert len(bench.store.attempts_of(job)[-1].workers) == 2
    return job


def start(bench: Bench, job: JobId, attempt: int) -> None:
    """All its workers start."""
    for worker in bench.store.attempts_of(job)[attempt - 1].workers:
        bench.executor.started(str(worker.id), bench.clock.now())
    bench.cycle()


def report(bench: Bench, job: JobId, attempt: int, step: int) -> None:
    point = Point(step, bench.clock.now(), step, "loss", 1.0)
    assert bench.store.add_points(job, attempt, 0, "report", [point]).new == 1


def shrink(bench: Bench, job: JobId, stopping: float, starting: float) -> JobId:
    """Another job comes, so that this one restarts on one core; it starts again after so many seconds each."""
    other = bench.submit(name="other")
    calls = bench.cycle()
    attempt = bench.job(job).attempt
    assert ("stop", f"{job}.{attempt}.0", 30.0) in calls
    bench.clock.pass_time(stopping)
    for rank in (0, 1):
        bench.exited(f"{job}.{attempt}.{rank}", KILLED)
    bench.cycle()
    bench.clock.pass_time(starting)
    start(bench, job, attempt + 1)
    start(bench, other, 1)
    return other


def cost(bench: Bench, job: JobId) -> float:
    return bench.scheduler._facts.restart_cost(bench.job(job))


def test_from_the_stop_to_the_first_step(bench: Bench) -> None:
    job = elastic(bench)
    report(bench, job, 1, 1)
    assert cost(bench, job) == GUESS, "nothing was measured"
    shrink(bench, job, stopping=4.0, starting=2.0)
    bench.cycle(5.0)
    assert cost(bench, job) == GUESS, "it loads"
    bench.clock.pass_time(1.0)
    report(bench, job, 2, 2)
    bench.clock.pass_time(0.5)
    report(bench, job, 2, 3)
    bench.cycle(1.0)
    assert cost(bench, job) == pytest.approx(4.0 + 2.0 + 5.0 + 1.0)


def test_a_job_that_never_reports_is_measured_to_its_start(bench: Bench) -> None:
    job = elastic(bench)
    shrink(bench, job, stopping=4.0, starting=2.0)
    bench.cycle(5.0)
    assert cost(bench, job) == pytest.approx(6.0)


def test_the_next_life_knows_it_and_so_do_jobs_like_it(bench: Bench) -> None:
    job = elastic(bench, name="train")
    shrink(bench, job, stopping=30.0, starting=20.0)
    bench.cycle(2.0)
    bench.live()
    assert cost(bench, job) == pytest.approx(50.0)
    assert cost(bench, bench.submit(name="train")) == pytest.approx(50.0)
    assert cost(bench, bench.submit(name="unlike")) == GUESS, "one restart of another job tells little"


def test_a_restart_of_the_service_in_the_middle_of_it_loses_nothing(bench: Bench) -> None:
    job = elastic(bench)
    report(bench, job, 1, 1)
    shrink(bench, job, stopping=4.0, starting=2.0)
    bench.live()
    bench.clock.pass_time(6.0)
    report(bench, job, 2, 2)
    bench.cycle(1.0)
    assert cost(bench, job) == pytest.approx(12.0)
    bench.live()
    bench.cycle(2.0)
    assert len(bench.store.setting("restart_costs")) == 1, "measured once"


def test_a_failure_is_no_restart_of_ours(bench: Bench) -> None:
    job = bench.running(max_restarts=1)
    bench.exited(f"{job}.1.0", KILLED)
    bench.cycle()
    bench.cycle(10.0)
    start(bench, job, 2)
    bench.cycle(2.0)
    assert bench.store.setting("restart_costs") is None


def test_one_that_is_stopped_before_it_got_anywhere_tells_nothing(bench: Bench) -> None:
    job = elastic(bench)
    report(bench, job, 1, 1)
    shrink(bench, job, stopping=1.0, starting=1.0)
    bench.ask("cancel", job)
    bench.cycle(2.0)
    assert bench.store.setting("restart_costs") is None
    assert bench.scheduler._facts.restarts._awaited == {}


def test_silence_for_an_hour_is_a_cost_too(bench: Bench) -> None:
    job = elastic(bench)
    report(bench, job, 1, 1)
    shrink(bench, job, stopping=1.0, starting=1.0)
    bench.cycle(3599.0)
    assert cost(bench, job) == GUESS
    bench.cycle(2.0)
    assert cost(bench, job) >= 3600.0


@pytest.mark.parametrize(("starting", "grows"), [(1.0, True), (120.0, False)])
def test_a_job_grows_only_if_that_pays_for_what_was_measured(bench: Bench, starting: float, grows: bool) -> None:
    """Some 100 s are left of it on one core; a second core would save nearly half of that."""
    job = elastic(bench, steps=1000)
    report(bench, job, 1, 1)
    other = shrink(bench, job, stopping=1.0, starting=starting)
    report(bench, job, 2, 2)
    bench.cycle(40.0)
    ran = bench.job(job).ran.at(bench.clock.now())
    report(bench, job, 2, round(1000 * ran / (ran + 100)))
    bench.exited(f"{other}.1.0")
    bench.cycle(3.0)
    assert (bench.job(job).resizes == 2) is grows
