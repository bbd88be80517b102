"""When a training is good enough: the rule by which a job's target counts as reached, live and simulated."""

import math
from collections.abc import Sequence

LATEST = 3  # values that are looked at; the middle one of them counts


def reached(values: Sequence[float], goal: str, target: float) -> float | None:
    """The middle one of the three latest values, if it is as good as the target; None: not reached, or too few.

    So two of them are as good as that: a single value, however good, decides nothing. One that is no number is bad.
    """
    if len(values) < LATEST:
        return None
    worst = math.inf if goal == "min" else -math.inf
    latest = sorted(worst if math.isnan(value) else value for value in values[-LATEST:])
    middle = latest[LATEST // 2]
    good = middle <= target if goal == "min" else middle >= target
    return middle if good and middle != worst else None
