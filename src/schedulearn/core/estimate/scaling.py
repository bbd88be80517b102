"""How well jobs scale, learned from the step times that were measured of them at each number of workers.

A step is taken to be the same work at any number of workers, as it is where the global batch stays.
"""

import statistics
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.core.estimate.speedup import fit_speedup

LEAST_WINDOWS = 3  # fewer stretches of steps tell nothing
_WINDOWS = 15  # the latest that count: a program may change as it goes on
_KEPT = 500  # measurements that are remembered
_LIKE = 5  # the latest jobs alike that count
_NEWS = 0.1  # a step time that differs by this part from what was last told is news


class StepTime(NamedTuple):
    """Measured of one job at one size."""

    job: int
    user: str
    name: str
    workers: int
    seconds: float


class Stretches:
    """The step times of one job at one size: the median of many short stretches, so that a pause hardly counts."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_WINDOWS)
        self._told = 0.0

    def add(self, seconds: float) -> float | None:
        """One more; the step time, if that is news."""
        self._seconds.append(seconds)
        if len(self._seconds) < LEAST_WINDOWS:
            return None
        now = statistics.median(self._seconds)
        if abs(now - self._told) <= _NEWS * self._told:
            return None
        self._told = now
        return now


class StepTimes:
    """Of all jobs, the latest last. Policies ask for speed-ups often: what jobs alike showed is worked out once."""

    def __init__(self, known: Iterable[StepTime] = ()) -> None:
        self._known = {(one.job, one.workers): one for one in known}
        self._priors: dict[tuple[str, str, int], SpeedUp | None] = {}

    def __iter__(self) -> Iterator[StepTime]:
        return iter(self._known.values())

    def learn(self, one: StepTime) -> None:
        self._priors.clear()
        self._known.pop((one.job, one.workers), None)
        self._known[one.job, one.workers] = one
        if len(self._known) > _KEPT:
            del self._known[next(iter(self._known))]

    def forget(self, job: int) -> None:
        """It does not run any more as it was measured."""
        self._priors.clear()
        self._known = {key: one for key, one in self._known.items() if one.job != job}

    def of(self, job: int) -> dict[int, list[float]]:
        return {one.workers: [one.seconds] for one in self if one.job == job}

    def speedup(self, job: int, user: str, name: str, most: int) -> SpeedUp | None:
        """From its own step times, and where those say nothing from jobs alike; None where nothing is known."""
        own, key = self.of(job), (user, name, most)
        if key not in self._priors:
            self._priors[key] = self._prior(*key)
        if len(own) < 2:  # one size alone says nothing of a curve
            return self._priors[key]
        return fit_speedup(own, most, self._priors[key])

    def _prior(self, user: str, name: str, most: int) -> SpeedUp | None:
        """What its user's jobs of its name showed, else those of its name: the median of their curves."""
        for level in (
            [one for one in self if (one.user, one.name) == (user, name)],
            [one for one in self if one.name == name],
        ):
            # Each against itself: step times of different jobs cannot be compared.
            jobs: dict[int, dict[int, list[float]]] = {}
            for one in level:
                jobs.setdefault(one.job, {})[one.workers] = [one.seconds]
            curves = [fit_speedup(times, most) for times in jobs.values() if len(times) > 1][-_LIKE:]
            if curves:
                return SpeedUp(statistics.median(curve(n) for curve in curves) for n in range(1, most + 1))
        return None
