"""How much faster a job runs with more workers."""

from collections.abc import Callable, Iterable
from functools import lru_cache


class SpeedUp:
    """s(n), relative to one slot: s(0) = 0, s(1) = 1. A table, so that asking costs next to nothing."""

    __slots__ = ("values",)

    def __init__(self, values: Iterable[float]) -> None:
        """`values` are s(1), s(2), …; beyond them more workers bring nothing."""
        self.values = (0.0, *values)
        if len(self.values) < 2:
            raise ValueError("a speed-up curve needs at least s(1)")

    @classmethod
    def of(cls, curve: Callable[[int], float], most: int) -> "SpeedUp":
        return cls(curve(n) for n in range(1, most + 1))

    def __call__(self, workers: int) -> float:
        return self.values[workers] if workers < len(self.values) else self.values[-1]

    def summit(self, least: int, most: int) -> int:
        """How far one more worker at a time still brings something, from `least` on and up to `most`."""
        workers = least
        while workers < most and self(workers + 1) > self(workers):
            workers += 1
        return workers

    @property
    def most(self) -> int:
        """The largest number of workers that the table knows."""
        return len(self.values) - 1


@lru_cache(maxsize=1024)
def assumed_speedup(most: int, penalty: float = 0.05) -> SpeedUp:
    """What is assumed of a job that nothing is known of: n / (1 + 0.05 · (n − 1))."""
    return SpeedUp.of(lambda n: n / (1 + penalty * (n - 1)), max(1, most))
