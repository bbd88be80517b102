"""Means and percentiles of what was measured; 0 of nothing."""

from collections.abc import Sequence


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile of values in order."""
    if not ordered:
        return 0.0
    rank = -(-len(ordered) * percent // 100)
    return ordered[min(len(ordered), max(1, int(rank))) - 1]
