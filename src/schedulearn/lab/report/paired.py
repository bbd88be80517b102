"""Differences run by run: what another policy makes of the same jobs, with the interval that chance allows."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Paired:
    """The mean of differences run by run, with the interval that holds the true one in 95 of 100 such studies."""

    mean: float
    low: float  # -inf, and the other inf: of one run
    high: float

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return math.isfinite(self.low)

    def as_json(self) -> dict[str, float | None]:
        """JSON has no infinity."""
        return {"mean": self.mean, "low": self.low if self.known else None, "high": self.high if self.known else None}


def change(before: float, after: float) -> float:
    """In percent; less is negative."""
    return 100.0 * (after - before) / before if before else 0.0


def paired(before: Sequence[float], after: Sequence[float]) -> Paired:
    """The change in percent, with Student's t. With one run there is no interval."""
    changes = [change(b, a) for b, a in zip(before, after, strict=True)]
    mean = statistics.fmean(changes)
    if len(changes) < 2:
        return Paired(mean, -math.inf, math.inf)
    from scipy.special import stdtrit  # only who compares pays for it

    half = float(stdtrit(len(changes) - 1, 0.975)) * statistics.stdev(changes) / math.sqrt(len(changes))
    return Paired(mean, mean - half, mean + half)


def interval(change: Paired) -> str:
    """In percent."""
    if not change.known:
        return f"{change.mean + 0.0:+.2f} %"
    return f"{change.mean + 0.0:+.2f} % [{change.low + 0.0:+.2f}, {change.high + 0.0:+.2f}]"
