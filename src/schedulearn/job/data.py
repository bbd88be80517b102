"""Which samples a step takes: the same for any number of workers, and after any restart.

The plan of a training follows from the number of samples, the batch size and a seed alone. Step `s` takes the next
`batch_size` samples of the order of its epoch; the workers that are there at that step divide them among themselves.
So the global batch is what was asked for whatever the number of workers, and every sample is seen once per epoch.
"""

from __future__ import annotations

import hashlib
import operator
import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple, SupportsIndex, TypeVar

from schedulearn.job.identity import place
from schedulearn.job.stopping import leave

T = TypeVar("T")


class Plan:
    """The order of all samples through all epochs. The last batch of an epoch may be smaller than the others."""

    def __init__(
        self, samples: SupportsIndex, batch_size: SupportsIndex, seed: SupportsIndex = 0, shuffle: bool = True
    ) -> None:
        self.samples = at_least(1, "samples", samples)
        self.batch_size = at_least(1, "batch_size", batch_size)
        self.seed = operator.index(seed)
        self.shuffle = shuffle
        self._order: tuple[int, array[int]] | None = None  # of the epoch that was asked for last

    @property
    def steps_per_epoch(self) -> int:
        return -(-self.samples // self.batch_size)

    def batch(self, step: int) -> tuple[int, list[int]]:
        """The epoch of a step (both count from 0), and the samples that all workers together take in it."""
        return self.next(self.seen(step), self.batch_size)

    def seen(self, step: int) -> int:
        """How many samples come before a step of `batch_size`."""
        epoch, in_epoch = divmod(at_least(0, "step", step), self.steps_per_epoch)
        return epoch * self.samples + in_epoch * self.batch_size

    def next(self, seen: int, size: int) -> tuple[int, list[int]]:
        """The epoch after so many samples, and the next ones of it, no more than `size`."""
        epoch, start = divmod(seen, self.samples)
        end = min(start + size, self.samples)
        if not self.shuffle:
            return epoch, list(range(start, end))
        return epoch, self._order_of(epoch)[start:end].tolist()

    def steps(self, seen: int) -> int:
        """How many steps of `batch_size` so many samples take, from the start."""
        epoch, start = divmod(seen, self.samples)
        return epoch * self.steps_per_epoch - (-start // self.batch_size)

    def _order_of(self, epoch: int) -> array[int]:
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, permutation(self.samples, f"{self.seed}.{epoch}")
        return self._order[1]


class Batch(NamedTuple):
    """What this worker does in one step."""

    epoch: int  # counts from 0
    step: int  # counts from 0 through all epochs
    indices: list[int]  # the samples of this worker; none if there are more workers than samples
    size: int  # the samples of all workers together


def batches(
    samples: SupportsIndex,
    batch_size: SupportsIndex,
    epochs: SupportsIndex = 1,
    seed: SupportsIndex = 0,
    shuffle: bool = True,
    start: SupportsIndex = 0,
) -> Iterator[Batch]:
    """The steps of a training from `start` on, each with the samples that this worker takes of it.

    `batch_size` is that of all workers together, whatever their number. A worker that is asked for its next batch
    when it does not belong to the group any more ends there, with status 0.
    """
    plan = Plan(samples, batch_size, seed, shuffle)
    steps = at_least(0, "epochs", epochs) * plan.steps_per_epoch
    return _batches(plan, range(at_least(0, "start", start), steps))


def _batches(plan: Plan, steps: range) -> Iterator[Batch]:
    for step in steps:
        rank, size = place()
        if rank is None:
            leave(0)
        epoch, indices = plan.batch(step)
        yield Batch(epoch, step, list(share(indices, rank, size)), len(indices))


def share(indices: Sequence[T], rank: int, size: int) -> Sequence[T]:
    """The part of a batch that belongs to worker `rank` of `size`: neighbours, and none has two more than another."""
    if not 0 <= rank < size:
        raise ValueError(f"rank is {rank}; with {size} workers it must be from 0 to {size - 1}")
    return indices[len(indices) * rank // size : len(indices) * (rank + 1) // size]


def permutation(size: int, key: str) -> array[int]:
    """The numbers below `size` in an order that follows from the key, the same in every version of Python."""
    random = array("Q")
    random.frombytes(hashlib.shake_256(key.encode()).digest(8 * size))
    if sys.byteorder == "big":
        random.byteswap()
    order = array("q", range(size))
    for i in range(size - 1, 0, -1):
        j = random[i] % (i + 1)
        order[i], order[j] = order[j], order[i]
    return order


def at_least(least: int, name: str, value: SupportsIndex) -> int:
    """The value as a whole number; ValueError if it is too small."""
    number = operator.index(value)
    if number < least:
        raise ValueError(f"{name} is {number}; it must be at least {least}")
    return number
