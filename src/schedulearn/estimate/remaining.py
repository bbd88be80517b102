"""How long a job still takes: from its own steps where the total is known, else from jobs like it."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_LEAST_JOBS = 3  # fewer earlier jobs tell nothing


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds, with the range in which they will probably lie."""

    low: float
    expected: float
    high: float

    def after(self, seconds: float) -> "Estimate":
        """The same, counted from `seconds` earlier."""
        return Estimate(self.low + seconds, self.expected + seconds, self.high + seconds)


def remaining_by_steps(ran: float, step: float, steps: int) -> Estimate | None:
    """From the steps done in the time it ran; the range narrows as it gets on."""
    if step <= 0 or ran <= 0:
        return None
    expected = max(0.0, steps - step) * ran / step
    doubt = 0.5 * max(0.05, 1.0 - step / steps)
    return Estimate(expected * (1 - doubt), expected, expected * (1 + doubt))


def remaining_by_history(ran: float, durations: Sequence[float]) -> Estimate | None:
    """From how long earlier jobs like it ran, given that it has already run for `ran`."""
    longer = sorted(d for d in durations if d > ran)
    if len(durations) < _LEAST_JOBS or not longer:
        return None
    low, high = longer[len(longer) // 10], longer[-1 - len(longer) // 10]
    return Estimate(low - ran, statistics.median(longer) - ran, high - ran)
