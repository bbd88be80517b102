"""The data plan: every sample once per epoch, the batch that was asked for, whatever the workers do."""

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn import job
from schedulearn.job.data import Plan, permutation, share

samples = st.integers(1, 200)
batch_sizes = st.integers(1, 70)
sizes = st.lists(st.integers(1, 9), min_size=1, max_size=30)


@given(samples, batch_sizes, sizes, st.integers(-5, 5), st.booleans())
def test_every_sample_is_seen_exactly_once_per_epoch_for_any_sequence_of_sizes(
    samples: int, batch_size: int, sizes: list[int], seed: int, shuffle: bool
) -> None:
    plan = Plan(samples, batch_size, seed, shuffle)
    workers = itertools.cycle(sizes)  # another number of workers at every step
    for epoch in range(3):
        seen: Counter[int] = Counter()
        for step in range(epoch * plan.steps_per_epoch, (epoch + 1) * plan.steps_per_epoch):
            found, batch = plan.batch(step)
            assert found == epoch
            size = next(workers)
            for rank in range(size):
                seen.update(share(batch, rank, size))
        assert seen == Counter(range(samples))


@given(samples, batch_sizes)
def test_all_batches_but_the_last_of_an_epoch_have_the_size_that_was_asked_for(samples: int, batch_size: int) -> None:
    plan = Plan(samples, batch_size)
    lengths = [len(plan.batch(step)[1]) for step in range(plan.steps_per_epoch)]
    assert lengths[:-1] == [batch_size] * (len(lengths) - 1)
    assert 0 < lengths[-1] <= batch_size
    assert sum(lengths) == samples


@given(st.lists(st.integers()), st.integers(1, 20))
def test_shares_are_neighbours_and_differ_by_one_at_most(indices: list[int], size: int) -> None:
    shares = [share(indices, rank, size) for rank in range(size)]
    assert list(itertools.chain(*shares)) == indices
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(samples, st.integers(), st.integers(0, 50))
def test_the_order_follows_from_the_seed_and_the_epoch_alone(samples: int, seed: int, epoch: int) -> None:
    step = epoch * Plan(samples, 7, seed).steps_per_epoch
    walked = Plan(samples, 7, seed)
    for before in range(step):
        walked.batch(before)
    assert walked.batch(step) == Plan(samples, 7, seed).batch(step)


def test_the_order_is_the_same_on_every_machine() -> None:
    assert Plan(10, 4, seed=1).batch(0) == (0, [9, 1, 4, 8])
    assert Plan(10, 4, seed=1).batch(3) == (1, [8, 3, 1, 4])


def test_epochs_and_seeds_differ() -> None:
    orders = {tuple(permutation(50, f"{seed}.{epoch}")) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25


def test_every_place_is_equally_likely() -> None:
    places = Counter(list(permutation(5, str(key))).index(0) for key in range(5000))
    assert all(850 < count < 1150 for count in places.values())  # 1000 each, more than five standard deviations


def test_without_shuffling_the_order_is_that_of_the_samples() -> None:
    assert [Plan(5, 2, shuffle=False).batch(step) for step in range(4)] == [
        (0, [0, 1]),
        (0, [2, 3]),
        (0, [4]),
        (1, [0, 1]),
    ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"samples": 0}, "samples is 0; it must be at least 1"),
        ({"batch_size": 0}, "batch_size is 0; it must be at least 1"),
        ({"epochs": -1}, "epochs is -1; it must be at least 0"),
        ({"start": -1}, "start is -1; it must be at least 0"),
    ],
)
def test_what_cannot_be_is_refused_at_once(arguments: dict[str, int], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        job.batches(**{"samples": 10, "batch_size": 2, **arguments})


@pytest.mark.parametrize("rank", [-1, 2])
def test_a_rank_outside_of_the_group_has_no_share(rank: int) -> None:
    with pytest.raises(ValueError, match=f"rank is {rank}"):
        share([1, 2, 3], rank, 2)


# --- batches: this worker's part, by the control file


@pytest.fixture
def control(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """This process is worker 1 of an attempt; calling it changes the members."""
    path = tmp_path / "control.json"
    monkeypatch.setenv("SCHEDULEARN_WORKER", "17.2.1")
    monkeypatch.setenv("SCHEDULEARN_CONTROL", str(path))
    monkeypatch.delenv("RANK", raising=False)
    generations = itertools.count()

    def write(*members: int) -> None:
        content = {"generation": next(generations), "members": members, "world_size": len(members)}
        path.write_text(json.dumps(content))

    return write


def test_a_worker_takes_its_part_and_follows_the_members(control: Any) -> None:
    plan = Plan(20, 6)
    control(0, 1)
    steps = job.batches(20, 6, epochs=2, start=1)
    assert next(steps) == job.Batch(0, 1, plan.batch(1)[1][3:], 6)
    control(1, 4, 5)
    assert next(steps) == job.Batch(0, 2, plan.batch(2)[1][:2], 6)
    control(1)
    assert next(steps) == job.Batch(0, 3, plan.batch(3)[1], 2)
    assert [batch.step for batch in steps] == [4, 5, 6, 7]


def test_a_worker_that_does_not_belong_to_the_group_any_more_ends_well(control: Any) -> None:
    control(0, 1)
    steps = job.batches(20, 6)
    next(steps)
    control(0, 2)
    with pytest.raises(SystemExit) as ended:
        next(steps)
    assert ended.value.code == 0


def test_outside_one_worker_takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SCHEDULEARN_WORKER", "SCHEDULEARN_CONTROL", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    found = list(job.batches(10, 4, epochs=2))
    assert [batch.epoch for batch in found] == [0, 0, 0, 1, 1, 1]
    assert sorted(itertools.chain(*(batch.indices for batch in found[3:]))) == list(range(10))
