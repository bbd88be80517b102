"""How well jobs scale, learned from the step times that were measured of them at each number of workers.

A step is taken to be the same work at any number of workers, as it is where the global batch stays.
"""

import statistics
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.core.estimate.speedup import fit_speedup

LEAST_WINDOWS = 3  # fewer stretches of steps tell nothing
_WINDOWS = 15  # the latest that count: a program may change as it goes on
_KEPT = 2_000  # measurements that are remembered
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
    """Of all jobs. What is told of a job depends on those of its name alone. Policies ask often: it is kept."""

    def __init__(self, known: Iterable[StepTime] = ()) -> None:
        self._known: dict[tuple[int, int], StepTime] = {}  # by job and size, the latest last
        self._named: dict[str, dict[tuple[int, int], StepTime]] = defaultdict(dict)  # the same
        self._told: dict[str, dict[Hashable, SpeedUp | None]] = defaultdict(dict)  # by name and question
        for one in known:
            self.learn(one)

    def __iter__(self) -> Iterator[StepTime]:
        return iter(self._known.values())

    def learn(self, one: StepTime) -> None:
        key = one.job, one.workers
        if key in self._known:
            self._drop(key)
        self._known[key] = self._named[one.name][key] = one
        self._told.pop(one.name, None)
        if len(self._known) > _KEPT:
            self._drop(next(iter(self._known)))

    def forget(self, job: int) -> None:
        """It does not run any more as it was measured."""
        for key in [key for key in self._known if key[0] == job]:
            self._drop(key)

    def of(self, job: int, name: str) -> dict[int, list[float]]:
        """Seconds by size."""
        return {one.workers: [one.seconds] for one in self._named.get(name, {}).values() if one.job == job}

    def speedup(self, job: int, user: str, name: str, most: int) -> SpeedUp | None:
        """From its own step times, and where those say nothing from jobs alike; None where nothing is known."""
        if name not in self._named:
            return None
        told, key = self._told[name], (job, user, most)
        if key not in told:
            told[key] = self._speedup(job, user, name, most)
        return told[key]

    def _speedup(self, job: int, user: str, name: str, most: int) -> SpeedUp | None:
        told, key = self._told[name], (user, most)
        if key not in told:
            told[key] = self._prior(user, name, most)
        own = self.of(job, name)
        if len(own) < 2:  # one size alone says nothing of a curve
            return told[key]
        return fit_speedup(own, most, told[key])

    def _prior(self, user: str, name: str, most: int) -> SpeedUp | None:
        """What its user's jobs of its name showed, else those of its name: the median of their curves."""
        alike = list(self._named[name].values())
        for level in ([one for one in alike if one.user == user], alike):
            # Each against itself: step times of different jobs cannot be compared.
            jobs: dict[int, dict[int, list[float]]] = {}
            for one in level:
                jobs.setdefault(one.job, {})[one.workers] = [one.seconds]
            latest = [times for times in jobs.values() if len(times) > 1][-_LIKE:]
            if latest:
                curves = [fit_speedup(times, most) for times in latest]
                return SpeedUp(statistics.median(curve(n) for curve in curves) for n in range(1, most + 1))
        return None

    def _drop(self, key: tuple[int, int]) -> None:
        name = self._known.pop(key).name
        del self._named[name][key]
        self._told.pop(name, None)
        if not self._named[name]:
            del self._named[name]
