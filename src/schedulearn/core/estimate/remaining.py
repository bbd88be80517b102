"""How long a job still takes, with a range: from its own steps, or from a row of sorted times."""

from collections.abc import Sequence
from dataclasses import dataclass, field

LEAST_JOBS = 3  # fewer earlier jobs tell nothing


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds (or steps, GPU-seconds …), with the range in which they will probably lie."""

    low: float
    expected: float
    high: float
    source: str = field(default="", compare=False)  # what it was made from, in a few words

    def after(self, seconds: float) -> "Estimate":
        """The same, counted from `seconds` earlier."""
        return Estimate(self.low + seconds, self.expected + seconds, self.high + seconds, self.source)

    def times(self, factor: float) -> "Estimate":
        """In another unit, or at another speed."""
        return Estimate(self.low * factor, self.expected * factor, self.high * factor, self.source)

    def at_least(self, limit: float) -> "Estimate":
        return Estimate(max(self.low, limit), max(self.expected, limit), max(self.high, limit), self.source)

    def at_most(self, limit: float) -> "Estimate":
        """The same, where something ends it at `limit` anyway."""
        return Estimate(min(self.low, limit), min(self.expected, limit), min(self.high, limit), self.source)


def remaining_by_steps(ran: float, step: float, steps: int, step_time: float | None = None) -> Estimate | None:
    """From the steps done in the time it ran (or the time of one step now); the range narrows as it gets on."""
    if step <= 0 or ran <= 0 or steps <= 0:
        return None
    expected = max(0.0, steps - step) * (step_time or ran / step)
    doubt = 0.5 * max(0.05, 1.0 - step / steps)
    return Estimate(expected * (1 - doubt), expected, expected * (1 + doubt), "steps")


def left_of(times: Sequence[float], first: int, ran: float, source: str) -> Estimate:
    """Median and inner 80 % of the sorted `times` from index `first` on, counted from `ran`."""
    there = len(times) - first
    tenth = there // 10
    middle = (times[first + (there - 1) // 2] + times[first + there // 2]) / 2
    return Estimate(times[first + tenth] - ran, middle - ran, times[-1 - tenth] - ran, source)
