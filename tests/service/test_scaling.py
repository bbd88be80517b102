"""Step times at each number of workers: measured on a real store while jobs are resized, kept, and used."""

from collections.abc import Iterator
from typing import Any

import pytest

from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.core.domain.job import Attempt, Worker
from schedulearn.core.domain.spec import Preemptible
from schedulearn.core.domain.states import JobState
from schedulearn.core.estimate.scaling import LEAST_WINDOWS
from schedulearn.service.common.config import DataFolder
from schedulearn.service.learn.facts import LiveFacts
from schedulearn.service.learn.scaling import Scaling
from schedulearn.store import Point, Store
from support.builders import KILLED
from support.clock import HandClock
from support.scheduling import Bench


class Trains:
    """A job that reports a step now and then."""

    def __init__(self, bench: Bench, job: JobId) -> None:
        self.bench, self.job, self.step, self.attempt = bench, job, 0, 1

    def steps(self, count: int, seconds: float) -> None:
        """So many, each this long; the scheduler looks after each."""
        for _ in range(count):
            self.step += 1
            self.bench.clock.pass_time(seconds)
            self.report(self.step)
            self.bench.cycle()

    def report(self, step: int) -> None:
        point = Point(self.step * 1000 + step, self.bench.clock.now(), step, "loss", 1.0)
        self.bench.store.add_points(self.job, self.attempt, 0, "report", [point])


@pytest.fixture
def bench(store: Store, folder: DataFolder, clock: HandClock) -> Bench:
    """Two cores, and jobs that take turns on them as they grow and shrink."""
    bench = Bench(store, folder, clock)
    bench.ask("policy", preset="afs-l", stages={}, params={})
    bench.cycle()
    return bench


def elastic(bench: Bench, **more: object) -> Trains:
    job = bench.submit(workers=(1, 1, 2), preemptible=Preemptible.YES, **more)
    bench.cycle()
    start(bench, job)
    assert len(bench.store.attempts_of(job)[-1].workers) == 2
    return Trains(bench, job)


def start(bench: Bench, job: JobId) -> None:
    for worker in bench.store.attempts_of(job)[-1].workers:
        bench.executor.started(str(worker.id), bench.clock.now())
    bench.cycle()


def shrink(bench: Bench, trains: Trains) -> JobId:
    """Another job takes one of the cores."""
    other = bench.submit(name="other")
    bench.cycle()
    for rank in (0, 1):
        bench.exited(f"{trains.job}.{trains.attempt}.{rank}", KILLED)
    bench.cycle()
    start(bench, trains.job)
    start(bench, other)
    trains.attempt += 1
    return other


def measured(bench: Bench) -> dict[tuple[int, int], float]:
    return {(one[0], one[3]): one[4] for one in bench.store.setting("step_times", [])}


def speedup(bench: Bench, job: JobId) -> float:
    return bench.scheduler._facts.speedup(bench.job(job))(2)


ASSUMED = 2 / 1.05


def test_a_job_that_does_not_scale_is_found_out_and_does_not_grow_again(bench: Bench) -> None:
    trains = elastic(bench)
    trains.steps(5, 3.0)
    assert measured(bench) == {(trains.job, 2): pytest.approx(3.0)}
    assert speedup(bench, trains.job) == pytest.approx(ASSUMED), "one size says nothing"
    other = shrink(bench, trains)
    trains.steps(6, 3.0)
    assert measured(bench)[trains.job, 1] == pytest.approx(3.0)
    assert speedup(bench, trains.job) == pytest.approx(1.0)
    bench.exited(f"{other}.1.0")
    for _ in range(3):
        assert not [call for call in bench.cycle(60.0) if call[0] == "stop"], "there is room, but what for?"
    assert bench.job(trains.job).attempt == 2


def test_one_that_scales_grows_again(bench: Bench) -> None:
    trains = elastic(bench)
    trains.steps(5, 3.0)
    other = shrink(bench, trains)
    trains.steps(6, 6.0)
    assert speedup(bench, trains.job) == pytest.approx(2.0)
    bench.exited(f"{other}.1.0")
    calls = [call for _ in range(3) for call in bench.cycle(60.0)]
    assert ("stop", f"{trains.job}.2.0", 30.0) in calls


def test_what_was_learned_counts_for_the_next_of_that_name_and_after_a_restart(bench: Bench) -> None:
    trains = elastic(bench, name="flat")
    trains.steps(5, 3.0)
    shrink(bench, trains)
    trains.steps(6, 3.0)
    bench.live()
    assert speedup(bench, trains.job) == pytest.approx(1.0)
    next_one = bench.submit(name="flat", workers=(1, 1, 2))
    unlike = bench.submit(name="steep", workers=(1, 1, 2))
    facts = LiveFacts(bench.store)
    assert facts.speedup(bench.job(next_one))(2) == pytest.approx(1.0)
    assert facts.speedup(bench.job(unlike))(2) == pytest.approx(ASSUMED)


def test_pauses_do_not_count(bench: Bench) -> None:
    trains = elastic(bench)
    trains.steps(2, 3.0)
    bench.ask("pause", trains.job)
    bench.cycle()
    for rank in (0, 1):
        bench.executor.paused(f"{trains.job}.1.{rank}", bench.clock.now())
    bench.cycle(1000.0)
    bench.ask("resume", trains.job)
    bench.cycle()
    assert bench.state(trains.job) is JobState.RUNNING
    bench.cycle(2.0)  # its last step was before the pause
    trains.steps(LEAST_WINDOWS, 3.0)
    assert measured(bench) == {}, "what came before does not count either"
    trains.steps(1, 3.0)
    assert measured(bench) == {(trains.job, 2): pytest.approx(3.0)}


def test_a_step_that_is_done_again_and_a_save_do_not_count(bench: Bench) -> None:
    trains = elastic(bench)
    trains.steps(4, 3.0)
    trains.step = 1
    trains.steps(1, 3.0)
    trains.steps(1, 500.0)
    trains.steps(4, 3.0)
    assert measured(bench) == {(trains.job, 2): pytest.approx(3.0)}


def test_quick_steps_are_counted_together(bench: Bench) -> None:
    trains = elastic(bench)
    trains.steps(120, 0.1)
    assert measured(bench) == {(trains.job, 2): pytest.approx(0.1, rel=0.01)}


def test_a_job_that_cannot_grow_is_not_looked_at(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.running()
    asked: list[Any] = []
    monkeypatch.setattr(Store, "latest_steps", lambda _, jobs: asked.append(jobs) or {})
    bench.cycle(5.0)
    assert asked == []


def test_another_limit_is_another_speed(bench: Bench) -> None:
    trains = elastic(bench, cpus=1)
    trains.steps(5, 3.0)
    bench.ask("update", trains.job, cpus_limit=0.5)
    bench.cycle()
    trains.steps(5, 6.0)
    assert measured(bench) == {(trains.job, 2): pytest.approx(6.0)}


# --- workers that come and go within one attempt


class Hot:
    """An attempt by hand."""

    def __init__(self, bench: Bench) -> None:
        self.trains = elastic(bench)
        self.store, self.clock = bench.store, bench.clock
        self.job = bench.scheduler.state.jobs[self.trains.job]
        self.attempt = Attempt(self.job.attempt_id, 0.0, [self._worker(0)])
        self.scaling = Scaling(bench.store)

    def _worker(self, rank: int) -> Worker:
        return Worker(WorkerId(self.job.id, 1, rank), self.job.placements[0].node, started_at=self.clock.now())

    def joins(self) -> None:
        self.attempt.workers.append(self._worker(len(self.attempt.workers)))

    def steps(self, count: int, seconds: float) -> None:
        for _ in range(count):
            self.trains.step += 1
            self.clock.pass_time(seconds)
            self.trains.report(self.trains.step)
            self.look()

    def look(self, seconds: float = 0.0) -> None:
        self.clock.pass_time(seconds)
        self.scaling.look({self.job.id: self.job}, {self.job.id: self.attempt}, self.clock.now())

    @property
    def times(self) -> dict[int, float]:
        return {one[3]: one[4] for one in self.store.setting("step_times", [])}


@pytest.fixture
def hot(bench: Bench) -> Iterator[Hot]:
    return Hot(bench)  # type: ignore[return-value]


def test_a_newcomer_loads_before_it_takes_part(hot: Hot) -> None:
    hot.steps(5, 4.0)
    hot.joins()
    hot.steps(4, 3.7)
    hot.look(20.0)  # its last step was before it had settled
    hot.steps(LEAST_WINDOWS, 2.0)
    assert hot.times == {1: pytest.approx(4.0)}
    hot.steps(1, 2.0)
    assert hot.times == {1: pytest.approx(4.0), 2: pytest.approx(2.0)}
    assert hot.scaling.speedup(hot.job)(2) == pytest.approx(2.0)  # type: ignore[misc]


def test_one_that_ended_or_was_told_to_leave_takes_part_no_more(hot: Hot) -> None:
    hot.joins()
    hot.steps(8, 4.0)
    hot.attempt.workers[1].ended_at = hot.clock.now()
    hot.steps(12, 8.0)
    assert hot.times == {2: pytest.approx(4.0), 1: pytest.approx(8.0)}


def test_what_one_job_showed_at_a_size_serves_the_next_that_runs_the_same(bench: Bench) -> None:
    first = elastic(bench, name="net", steps=100)
    first.steps(5, 3.0)
    for worker in bench.store.attempts_of(first.job)[-1].workers:
        bench.exited(str(worker.id))
    bench.cycle()
    row = bench.store.job(bench.submit(name="net", workers=(1, 1, 2), preemptible=Preemptible.YES, steps=100))
    assert row is not None
    second = row.job
    facts = LiveFacts(bench.store)
    estimate = facts.estimate(second, bench.clock.now())
    assert estimate is not None
    assert (estimate.expected, estimate.source) == (pytest.approx(300 * ASSUMED), "steps at the pace of its program")
