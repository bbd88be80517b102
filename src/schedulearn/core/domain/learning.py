"""How a training gets better as it goes on."""

from bisect import bisect_right
from collections.abc import Iterable

from schedulearn.core.domain.target import LATEST, reached


class LearningCurve:
    """A metric by the part of a job's work that is done, from 0 to 1: straight lines between the points that are known.

    It says what a job would report, whoever runs it and however fast. How steep it still is tells what more work would
    bring: `value(p) - value(p + d)`.
    """

    __slots__ = ("_parts", "_values", "goal")

    def __init__(self, points: Iterable[tuple[float, float]], goal: str = "min") -> None:
        """`points` are (part of the work done, metric), in order; `goal`: is it to fall (min) or to rise (max)?"""
        pairs = list(points)
        self._parts = [part for part, _ in pairs]
        self._values = [value for _, value in pairs]
        self.goal = goal
        if not pairs or any(a >= b for a, b in zip(self._parts, self._parts[1:], strict=False)):
            raise ValueError("a learning curve needs points, each further on than the one before")

    def value(self, progress: float) -> float:
        """The metric at this point. Before the first known value and after the last it is taken for constant."""
        at = bisect_right(self._parts, progress)
        if at == 0:
            return self._values[0]
        if at == len(self._parts):
            return self._values[-1]
        x0, x1, y0, y1 = self._parts[at - 1], self._parts[at], self._values[at - 1], self._values[at]
        return y0 + (y1 - y0) * (progress - x0) / (x1 - x0)

    def passed(self, progress: float) -> int:
        """How many of its points lie behind: what was reported so far."""
        return bisect_right(self._parts, progress)

    def part(self, count: int) -> float:
        """How far it was when it had passed so many points; 0 before the first."""
        return self._parts[count - 1] if count else 0.0

    def __len__(self) -> int:
        return len(self._parts)

    def between(self, before: float, after: float) -> list[float]:
        """What was reported after the one point of its work and until the other."""
        return self._values[self.passed(before) : self.passed(after)]

    def reaches(self, target: float) -> int | None:
        """How many of its points lie behind when it reaches a target (`core/domain/target.py`); None: it never does."""
        for count in range(1, len(self) + 1):
            if reached(self._values[max(0, count - LATEST) : count], self.goal, target) is not None:
                return count
        return None

    def points(self, count: int | None = None) -> list[tuple[float, float]]:
        """The first so many of its points, or all."""
        return list(zip(self._parts[:count], self._values[:count], strict=True))
