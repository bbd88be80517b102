"""How a curve of any length is kept in a bounded number of points, evenly spread and with the first always there.

Points have ordinals from 0. Those are kept whose ordinal is a multiple of the stride; when there are too many,
the stride doubles, which drops every second one. What the curve says as a whole is kept exactly beside it.
"""

import math
from dataclasses import dataclass, field

from schedulearn.store.types import Point

MOST_POINTS = 2000  # of one series that are kept
MOST_READ = 50_000  # of several series that are read together
MOST_SPARK = 24  # values in a sparkline, the latest one included


@dataclass(slots=True)
class Track:
    """One series while points are added to it."""

    count: int = 0
    stride: int = 1
    last: Point | None = None  # the latest that was added here
    low: float | None = None  # nan leaves low and high alone
    high: float | None = None
    spark: list[float] = field(default_factory=list)
    spark_stride: int = 1
    fresh: list[tuple[int, Point]] = field(default_factory=list)  # points to keep that came in here, with ordinals

    def add(self, point: Point) -> None:
        ordinal, self.count, self.last = self.count, self.count + 1, point
        if not math.isnan(point.value):
            self.low = point.value if self.low is None else min(self.low, point.value)
            self.high = point.value if self.high is None else max(self.high, point.value)
        self._keep(ordinal, point)
        self._sketch(ordinal, point.value)

    def _keep(self, ordinal: int, point: Point) -> None:
        if (stride := stride_at(ordinal, self.stride)) != self.stride:
            self.stride = stride
            self.fresh = [(n, p) for n, p in self.fresh if n % self.stride == 0]
        if ordinal % self.stride == 0:
            self.fresh.append((ordinal, point))

    def _sketch(self, ordinal: int, value: float) -> None:
        if ordinal // self.spark_stride >= MOST_SPARK - 1:  # the latest value is put behind it when it is read
            self.spark_stride *= 2
            self.spark = self.spark[::2]
        if ordinal % self.spark_stride == 0:
            self.spark.append(value)


def stride_at(ordinal: int, stride: int) -> int:
    """The stride from this point on."""
    return stride * 2 if ordinal // stride >= MOST_POINTS else stride


def reading_stride(count: int, stride: int, most: int) -> int:
    """The stride at which to read a kept curve so that it has at most `most` points, the latest one included."""
    there = (count - 1) // stride + 1
    latest_is_kept = (count - 1) % stride == 0
    if there + (not latest_is_kept) <= most:
        return stride
    return stride * math.ceil(there / max(1, most - 1))


def points_each(wanted: int, series: int) -> int:
    """How many points of each are read, of so many series together."""
    return min(wanted, max(1, MOST_READ // max(1, series)))
