"""How far off estimates were: what a report says beside results that were made with them."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from schedulearn.core.estimate.remaining import Estimate


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Of all estimates whose truth is known."""

    count: int  # pairs that were compared; those without a positive, finite truth are left out
    median_error: float  # |expected − true| / true, the median
    within_range: float  # share of truths that lay in low..high, 0..1
    bias: float  # median of expected / true: 1 is none, 2 is twice too long


def accuracy(pairs: Iterable[tuple[Estimate, float]]) -> Accuracy | None:
    """From (estimated, true) pairs; None if there is nothing to compare."""
    known = [(estimate, true) for estimate, true in pairs if 0 < true < math.inf]
    if not known:
        return None
    ratios = [estimate.expected / true for estimate, true in known]
    inside = sum(estimate.low <= true <= estimate.high for estimate, true in known)
    return Accuracy(
        count=len(known),
        median_error=statistics.median(abs(ratio - 1) for ratio in ratios),
        within_range=inside / len(known),
        bias=statistics.median(ratios),
    )
