"""Kinds of shapes: those that ask for about as much. Where the least that a kind asks for cannot fit, nobody can."""

import math
from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from schedulearn.core.domain.job import Job
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.shape import Shape
from schedulearn.core.domain.spec import Workers
from schedulearn.core.policies.stages import Key


class Entry(NamedTuple):
    """A waiting job with its place in the queue."""

    key: Key  # ends in the job's number
    added: int  # tells a job's old entries from its new one
    job: Job


class Kind:
    """Shapes that fit the same nodes and differ little in their amounts, with the first job of each that waits."""

    __slots__ = ("_oldest", "floor", "heads")

    def __init__(self, floor: Shape, heads: list[Entry]) -> None:
        self.floor = floor  # asks for no more than any of them does, of anything
        self.heads = heads  # in the order of the queue
        self._oldest: float | None = None  # as far as it is known

    def copy(self) -> "Kind":
        return Kind(self.floor, list(self.heads))

    @property
    def oldest(self) -> float:
        """When the first of the heads was queued."""
        if self._oldest is None:
            self._oldest = min((entry.job.queued_at for entry in self.heads), default=math.inf)
        return self._oldest

    def add(self, shape: Shape, head: Entry) -> None:
        insort(self.heads, head)
        self.floor = _floor_of(self.floor, shape)
        if self._oldest is not None:
            self._oldest = min(self._oldest, head.job.queued_at)

    def remove(self, head: Entry) -> None:
        at = bisect_left(self.heads, head)
        if at < len(self.heads) and self.heads[at] is head:
            del self.heads[at]
        else:  # the keys of this order cannot be sorted by
            self.heads = [entry for entry in self.heads if entry is not head]
        self._oldest = None


class Kinds:
    """All kinds of one pool. A suspended job is of no kind: it fits in one place only."""

    def __init__(self, heads: Iterable[tuple[Shape, Entry]] = ()) -> None:
        self.alone: dict[Shape, None] = {}  # those of suspended jobs
        self._kinds: dict[Hashable, Kind] = {}
        self._heads: dict[Shape, tuple[Hashable, Entry]] = {}  # the kind of each shape, and who is its first job there
        for shape, head in heads:
            self.put(shape, head)

    def __len__(self) -> int:
        """How many shapes there are."""
        return len(self._heads)

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())

    def copy(self) -> "Kinds":
        other = Kinds()
        other.alone = dict(self.alone)
        other._kinds = {key: kind.copy() for key, kind in self._kinds.items()}
        other._heads = dict(self._heads)
        return other

    def kind_of(self, shape: Shape) -> Kind | None:
        key, _ = self._heads.get(shape, (None, None))
        return self._kinds.get(key)

    def put(self, shape: Shape, head: Entry | None) -> None:
        """This is the first job of the shape that waits; None: no job of it does."""
        key, before = self._heads.get(shape, (None, None))
        if before is head:
            return
        if head is not None and head.job.suspended_at:
            self.alone[shape] = None
        elif head is not None:
            self._put_in(shape, key or _likeness(shape), head)
        else:
            self.alone.pop(shape, None)
            self._heads.pop(shape, None)
        if before is not None:
            self._kinds[key].remove(before)
            if not self._kinds[key].heads:
                del self._kinds[key]

    def _put_in(self, shape: Shape, key: Hashable, head: Entry) -> None:
        self._heads[shape] = (key, head)
        if key in self._kinds:
            self._kinds[key].add(shape, head)
        else:
            self._kinds[key] = Kind(shape, [head])


def _likeness(shape: Shape) -> Hashable:
    """Equal for shapes that suit the same nodes and ask for about as much: amounts in steps of a quarter or less."""
    amounts = tuple((name, _step(amount)) for name, amount in shape.per_worker.items())
    sizes = (_step(shape.workers.want), _step(shape.workers.min))
    return (shape.gpu_type, shape.container, shape.own_image, shape.one_node, amounts, sizes)


def _step(amount: float) -> tuple[int, int]:
    part, power = math.frexp(amount)
    return power, int(part * 8)


def _floor_of(one: Shape, other: Shape) -> Shape:
    amounts = {name: min(amount, other.per_worker[name]) for name, amount in one.per_worker.items()}
    size, more = one.workers, other.workers
    workers = Workers(min(size.min, more.min), min(size.want, more.want), min(size.max, more.max))
    least = Resources(amounts)
    if least == one.per_worker and workers == size:
        return one
    return replace(one, per_worker=least, workers=workers, gpus=min(one.gpus, other.gpus), slots=least[one.pool])
