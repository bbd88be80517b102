"""Tiresias with the Gittins index inside its queues."""

import math
from bisect import bisect_right, insort
from collections.abc import Sequence
from itertools import accumulate

from schedulearn.core.domain.job import Job
from schedulearn.core.policies.order.las import Las
from schedulearn.core.policies.stages import Facts, Key, Memory

_SAMPLES = "gittins.gpu_times"
_MOST_SAMPLES = 5000
_REFRESH = 50  # completed jobs after which the distribution is looked at anew


class Gittins(Las):
    """As 2D-LAS, but inside a queue by the chance to finish soon per expected service, largest first.

    The distribution is that of the GPU-time of completed jobs, or one that is given (`gpu_times`).
    """

    running_moves_forward = False  # the index of a running job may fall as well as rise

    def __init__(
        self,
        thresholds: Sequence[float] = (3600.0,),
        promote: float | None = 8.0,
        gpu_times: Sequence[float] = (),
    ) -> None:
        super().__init__(thresholds, promote)
        self._given = bool(gpu_times)
        self._learned = 0
        self._use(gpu_times)

    def key(self, job: Job, now: float, facts: Facts) -> Key:
        queue, part, place, base, _ = job.order_state
        attained = job.attained.at(now) - base
        return (queue, -self.index(attained, queue), part, place)

    def index(self, attained: float, queue: int) -> float:
        """P(finish within Δ) / E[min(remaining, Δ)], given what it has attained; 0 beyond the data."""
        first, (horizon, last) = bisect_right(self._times, attained), self._horizons[min(queue, len(self.thresholds))]
        if last <= first:
            return 0.0
        served = self._sums[last] - self._sums[first] - attained * (last - first)
        if last < len(self._times):
            served += (horizon - attained) * (len(self._times) - last)
        return (last - first) / served if served > 0 else math.inf

    def finished(self, job: Job, now: float, memory: Memory) -> None:
        if self._given:
            return
        samples = memory.setdefault(_SAMPLES, [])
        if len(samples) < _MOST_SAMPLES:
            insort(samples, job.attained.at(now))
        self._learned += 1
        if self._learned % _REFRESH == 0 or len(samples) < _REFRESH:
            self._use(samples)

    def _use(self, gpu_times: Sequence[float]) -> None:
        self._times = sorted(gpu_times)
        self._sums = [0.0, *accumulate(self._times)]
        # Of each queue: where it ends, and how many of them do not go beyond that.
        self._horizons = [(end, bisect_right(self._times, end)) for end in (*self.thresholds, math.inf)]
        self.generation += 1
