"""Batch sizes: what jobs report of them is learned on a real store, the best is told, and the next job knows it."""

import pytest

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.spec import Batches, Preemptible
from schedulearn.service.common.config import DataFolder
from schedulearn.service.learn.facts import LiveFacts
from schedulearn.store import Point, Store
from support.clock import HandClock
from support.scheduling import Bench

OPEN = Batches(32, 512)


def step_time(batch: int) -> float:
    """One second whatever the batch, and ten milliseconds for each sample."""
    return 1.0 + 0.01 * batch


class Trains:
    """A job that reports as `schedulearn.job.torch` does, and trains with what it is told."""

    def __init__(self, bench: Bench, job: JobId) -> None:
        self.bench, self.job, self.samples, self.batch, self.steps, self.orders = bench, job, 0.0, 64, 0, 0

    def report(self, noise: float, steps: int = 60) -> None:
        for _ in range(steps):
            self.bench.clock.pass_time(step_time(self.batch))
            self.samples += self.batch
            self.steps += 1
            told = (("samples", self.samples), ("batch", self.batch), ("grad_noise", noise))
            for number, (name, value) in enumerate(told):
                point = Point(3 * self.steps + number, self.bench.clock.now(), self.steps, name, value)
                self.bench.store.add_points(self.job, 1, 0, "report", [point])
            for call in self.bench.cycle():
                if call[:2] == ("set_batch", f"{self.job}.1.0"):
                    self.batch, self.orders = int(str(call[2])), self.orders + 1


@pytest.fixture
def bench(store: Store, folder: DataFolder, clock: HandClock) -> Bench:
    return Bench(store, folder, clock)


def job(bench: Bench, batch: Batches | None = OPEN) -> Trains:
    number = bench.submit(workers=(1, 1, 2), preemptible=Preemptible.YES, batch=batch)
    bench.cycle()
    bench.executor.started(f"{number}.1.0", bench.clock.now())
    bench.cycle()
    return Trains(bench, number)


def test_the_batch_follows_the_noise_and_the_next_job_knows_it(bench: Bench) -> None:
    trains = job(bench)
    trains.report(noise=10.0)
    quiet = trains.batch
    trains.report(noise=1e6)
    assert quiet < 64 < trains.batch == 512, "where gradients are noisy, a larger batch loses nothing"
    trains.report(noise=10.0)
    assert trains.batch == quiet
    facts, running = LiveFacts(bench.store), bench.scheduler.state.jobs[trains.job]
    assert facts.speedup(running)(2) > 1
    assert facts.batching.goodputs.batch(running, 1) == quiet, "by the noise that the last of its kind began with"
    assert not facts.known(running, bench.clock.now()).speedup, "only one size was measured"


def test_a_job_that_keeps_its_batch_size_to_itself_is_told_nothing(bench: Bench) -> None:
    trains = job(bench, batch=None)
    trains.report(noise=1e6)
    assert (trains.batch, trains.orders) == (64, 0)
