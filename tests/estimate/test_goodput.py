"""How fast jobs learn at each size, from step times at some sizes and batches, and from the noise of gradients."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Job, Placement
from schedulearn.core.domain.spec import Batches, JobSpec, Workers
from schedulearn.core.domain.speedup import assumed_speedup
from schedulearn.core.estimate.goodput import Goodputs, batch_sizes

BATCHES = Batches(32, 512)
True_ = Callable[[int, int], float]


def job(number: int = 1, workers: int = 0, most: int = 16, batch: Batches | None = BATCHES, **fields: str) -> Job:
    spec = JobSpec(fields.pop("name", "net"), "python train.py", workers=Workers(1, 1, most), batch=batch, **fields)  # type: ignore[arg-type]
    made = Job(JobId(number), spec, "ann", 0.0)
    made.placements = tuple(Placement(NodeName(f"node{k // 4}")) for k in range(workers))
    return made


def step(workers: int, batch: int) -> float:
    """What is true: 0.1 s, 1 ms for each sample of a worker, and 50 ms to exchange gradients."""
    return 0.1 + 0.001 * batch / workers + 0.05 * (workers > 1)


def learned(sizes: list[int], noise: float = 200.0, true: True_ = step) -> Goodputs:
    goodputs = Goodputs()
    for workers in sizes:
        for batch in (64, 256):
            goodputs.learn_time(job(workers=workers), 1, batch, true(workers, batch))
    goodputs.learn_noise(job(), noise)
    return goodputs


def truly_best(workers: int, noise: float) -> tuple[float, int]:
    return max(
        (batch / step(workers, batch) * (noise + 32) / (noise + batch), batch)
        for batch in batch_sizes(BATCHES)
        if batch >= workers
    )


@given(st.floats(1.0, 1e6))
def test_what_was_measured_at_a_few_sizes_tells_the_others(noise: float) -> None:
    goodputs = learned([1, 2, 8], noise)
    curve = goodputs.speedup(job())
    assert curve is not None
    alone, _ = truly_best(1, noise)
    for workers in range(1, 17):
        goodput, batch = truly_best(workers, noise)
        assert curve(workers) == pytest.approx(goodput / alone, rel=1e-3)
        assert goodputs.batch(job(), workers) == batch
    assert goodputs.is_measured(job())


def test_the_noisier_the_gradients_the_larger_the_batch_and_the_more_workers_bring() -> None:
    quiet, noisy = learned([1, 2, 8], 10.0), learned([1, 2, 8], 10_000.0)
    assert [each.batch(job(), 8) for each in (quiet, noisy)] == [truly_best(8, 10.0)[1], 512]
    slow, fast = quiet.speedup(job()), noisy.speedup(job())
    assert slow is not None
    assert fast is not None
    assert slow(8) < 1.5
    assert fast(8) > 2.5


def test_growth_is_believed_up_to_twice_the_largest_size_measured() -> None:
    curve = learned([1, 2]).speedup(job())
    assert curve is not None
    assert curve(4) > curve(3)
    assert curve(16) == curve(4)


def test_of_one_size_others_are_taken_to_scale_as_jobs_usually_do() -> None:
    goodputs = Goodputs()
    goodputs.learn_time(job(workers=2), 1, 64, 1.0)
    goodputs.learn_noise(job(), 1e9)
    curve = goodputs.speedup(job())
    assert curve is not None
    assert not goodputs.is_measured(job())
    assert 1 < curve(2) <= 2
    assert curve(4) == pytest.approx(4 * curve(1), rel=0.3)
    assert curve(4) < assumed_speedup(4)(4) * 1.3


def test_nothing_is_told_without_step_times_or_noise_or_the_users_consent() -> None:
    goodputs = Goodputs()
    goodputs.learn_time(job(workers=1), 1, 64, 1.0)
    assert goodputs.speedup(job()) is None
    assert goodputs.batch(job(), 1) is None
    known = learned([1, 2])
    assert known.speedup(job(batch=None)) is None
    assert known.speedup(job(2, name="other")) is None
    assert known.speedup(job(2, image="other")) is None


def test_the_next_job_of_the_kind_begins_with_the_noise_that_the_last_began_with() -> None:
    goodputs = learned([1, 2, 8], 50.0)
    goodputs.learn_noise(job(), 5000.0)
    assert goodputs.batch(job(2), 8) == truly_best(8, 50.0)[1]
    assert goodputs.batch(job(), 8) == truly_best(8, 5000.0)[1]
    kept = Goodputs(iter(goodputs), goodputs.noises)
    assert kept.batch(job(2), 8) == goodputs.batch(job(2), 8)


def test_what_is_news() -> None:
    goodputs = learned([1, 2, 8])
    assert goodputs.speedup(job()) is not None
    assert not goodputs.learn_time(job(workers=8), 1, 64, step(8, 64) * 1.05)
    assert goodputs.learn_time(job(workers=8), 1, 64, step(8, 64) * 1.5)
    assert goodputs.learn_time(job(workers=16), 1, 64, step(16, 64)), "a size that was never seen"
    assert not goodputs.learn_noise(job(), 210.0)
    assert goodputs.learn_noise(job(), 300.0)


def test_what_workers_on_several_nodes_lose_is_told_apart() -> None:
    def true(workers: int, nodes: int, batch: int) -> float:
        return step(workers, batch) + 0.5 * (nodes > 1)

    goodputs = Goodputs()
    for workers, nodes in ((1, 1), (2, 1), (2, 2), (4, 1), (8, 2)):
        for batch in (64, 512):
            goodputs.learn_time(job(workers=workers), nodes, batch, true(workers, nodes, batch))
    goodputs.learn_noise(job(), 1e6)
    curve = goodputs.speedup(job())
    assert curve is not None
    assert curve(5) < curve(4), "that would need a second node"
    assert curve(4) == pytest.approx(true(1, 1, 512) / true(4, 1, 512), rel=0.01)
    assert curve(8) == pytest.approx(true(1, 1, 512) / true(8, 2, 512), rel=0.01)


def test_what_is_kept_is_bounded() -> None:
    goodputs = Goodputs()
    for number in range(700):
        goodputs.learn_time(job(number, 1, name=f"net{number}"), 1, 64, 1.0)
    for batch in range(100):
        goodputs.learn_time(job(1, 1), 1, 32 + batch, 1.0)
    assert len(list(goodputs)) == 499 + 60


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_batch_sizes_are_in_the_range_with_both_its_ends(one: int, other: int) -> None:
    batches = Batches(*sorted((one, other)))
    sizes = batch_sizes(batches)
    assert (sizes[0], sizes[-1]) == (batches.min, batches.max)
    assert list(sizes) == sorted(set(sizes))
