"""What a policy takes for true of a job where little is known: how fast it would be, and how much work it has left."""

import math
from collections.abc import Mapping
from functools import lru_cache

from schedulearn.core.domain.job import Job
from schedulearn.core.domain.speedup import SpeedUp, assumed_speedup
from schedulearn.core.policies.stages import Ask, Facts

Amounts = tuple[float, float, float, float, float]  # equally likely ones
Speeds = Mapping[int, float]  # by the number of workers: of the sizes that are thought of, in ascending order

_UNKNOWN = 1800.0  # seconds that a job may take of which nothing is known, and by which factor that may be wrong
_DOUBT = 9.0


def speeds(job: Job, ask: Ask, facts: Facts, assumed: float) -> Speeds:
    """As it was measured. What was not: its user will have asked for a size that brings something, so that it is taken
    to be efficient by `assumed` there; larger sizes are thought of once it, or jobs of its name, were measured.
    """
    return _speeds(facts.speedup(job), ask.min, ask.want, ask.max, ask.has, facts.measured_up_to(job), assumed)


def seconds_left(job: Job, facts: Facts, now: float) -> Amounts:
    """With as many workers as it wants."""
    left = facts.estimate(job, now)
    if left is None:
        middle = max(_UNKNOWN, job.worked.at(now))
        low, high = middle / _DOUBT, middle * _DOUBT
    else:
        middle = max(left.expected, 1.0)
        low, high = min(max(left.low, 1.0), middle), max(left.high, middle)
    return low, math.sqrt(low * middle), middle, math.sqrt(middle * high), high


@lru_cache(maxsize=8192)  # policies ask at every decision
def _speeds(
    curve: SpeedUp, least: int, want: int, most: int, has: int, measured: int, assumed: float
) -> dict[int, float]:
    if least == most or measured >= want:
        return {n: curve(n) for n in _sizes(least, want, most, has)}
    slower = (1 / assumed - 1) / (want - 1) if want > 1 else 0.0

    def asked(n: int) -> float:
        return n / (1 + slower * (n - 1))

    if not measured and curve is assumed_speedup(most):
        return {n: asked(n) for n in _sizes(least, want, max(want, has), has)}
    at = max(1, measured)  # up to there it is as it was measured
    pace = curve(at) / asked(at)
    return {
        n: curve(n) if n <= measured else max(curve(n), pace * asked(min(n, want)))
        for n in _sizes(least, want, most, has)
    }


def _sizes(least: int, want: int, most: int, has: int) -> list[int]:
    """Those that are worth a thought: with all of them decisions would hardly be better, and take far longer."""
    found, n = {least, want, most, has}, 1
    while n <= most:
        found.update((n, n + n // 2))
        n *= 2
    return sorted(n for n in found if least <= n <= most)
