"""How well jobs scale, learned from the step times that were measured of them at each number of workers.

A step is taken to be the same work at any number of workers, as it is where the global batch stays, and in all jobs
that run the same image and command: so what one of these showed at one size and another at a second one is a curve.
"""

import hashlib
import math
import statistics
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, cast

from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.core.estimate.speedup import fit_speedup

LEAST_WINDOWS = 3  # fewer stretches of steps tell nothing
_WINDOWS = 15  # the latest that count: a program may change as it goes on
_KEPT = 2_000  # measurements that are remembered
_LIKE = 5  # the latest jobs alike that count
_MOST_LOST = 0.9  # of its speed, for being on several nodes
_NEWS = 0.1  # a step time that differs by this part from what was last told is news

_Key = tuple[int, int, int]  # job, workers, nodes
_Sizes = dict[int, list[float]]  # seconds of steps, by the number of workers
T = TypeVar("T")


class StepTime(NamedTuple):
    """Measured of one job at one size."""

    job: int
    user: str
    name: str
    workers: int
    seconds: float
    program: str = ""  # what runs (`program_of`): steps of one program are the same work; "": not known
    nodes: int = 1  # that the workers are on


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
        self._known: dict[_Key, StepTime] = {}  # the latest last
        self._named: dict[str, dict[_Key, StepTime]] = defaultdict(dict)  # the same
        self._told: dict[str, dict[Hashable, Any]] = defaultdict(dict)  # answers by name and question
        for one in known:
            self.learn(one)

    def __iter__(self) -> Iterator[StepTime]:
        return iter(self._known.values())

    def learn(self, one: StepTime) -> None:
        key = one.job, one.workers, one.nodes
        if key in self._known:
            self._drop(key)
        self._known[key] = self._named[one.name][key] = one
        self._told.pop(one.name, None)
        if len(self._known) > _KEPT:
            self._drop(next(iter(self._known)))

    def knows(self, job: int, workers: int, nodes: int) -> bool:
        return (job, workers, nodes) in self._known

    def forget(self, job: int) -> None:
        """It does not run any more as it was measured."""
        for key in [key for key in self._known if key[0] == job]:
            self._drop(key)

    def sizes(self, job: int, name: str) -> list[int]:
        """At which it was measured."""
        return sorted({one.workers for one in self._named.get(name, {}).values() if one.job == job})

    def speedup(self, job: int, user: str, name: str, most: int, program: str = "") -> SpeedUp | None:
        """From its own step times and those of its program, else from jobs alike; None where nothing is known."""
        return self._answer(name, (job, user, most, program), lambda: self._speedup(job, user, name, most, program))

    def locality_penalty(self, job: int, user: str, name: str, program: str = "") -> float | None:
        """The part of its speed that it loses on several nodes, of it or of jobs alike; None: it was never measured."""
        return self._answer(name, (job, user, program), lambda: self._penalty(job, user, name, program))

    def measured_up_to(self, job: int, name: str, program: str = "") -> int:
        """The largest size at which its program was measured, where it was at several; else 0."""
        return self._answer(name, (job, program), lambda: self._measured_up_to(job, name, program)) or 0

    def _measured_up_to(self, job: int, name: str, program: str) -> int:
        sizes = _completed(*self._comparable(job, name, program))
        return max(sizes) if len(sizes) > 1 else 0

    def step_time(
        self, job: int, name: str, workers: int, program: str = "", curve: SpeedUp | None = None
    ) -> float | None:
        """Seconds of a step of this job with so many workers, else of its program: from the size measured that is
        nearest, by its curve where that is another one."""
        for sizes in self._comparable(job, name, program):
            if sizes:
                nearest = min(sizes, key=lambda n: (abs(math.log(n / workers)), n))
                if nearest == workers or curve is not None:
                    ratio = 1.0 if curve is None else curve(nearest) / curve(workers)
                    return statistics.median(sizes[nearest]) * ratio
        return None

    def _answer(self, name: str, question: Hashable, find: Callable[[], T]) -> T | None:
        if name not in self._named:
            return None
        told = self._told[name]
        if question not in told:
            told[question] = find()
        return cast("T", told[question])

    def _speedup(self, job: int, user: str, name: str, most: int, program: str) -> SpeedUp | None:
        prior = self._answer(name, (user, most), lambda: self._prior(user, name, most))
        times = _completed(*self._comparable(job, name, program))
        if len(times) < 2:  # one size alone says nothing of a curve
            return prior
        return fit_speedup(times, most, prior)

    def _prior(self, user: str, name: str, most: int) -> SpeedUp | None:
        """What its user's jobs of its name showed, else those of its name: the median of their curves."""
        if not name:
            return None  # that is no likeness
        groups = self._groups(name).values()
        for level in ([[one for one in group if one.user == user] for group in groups], groups):
            latest = [sizes for group in level if len(sizes := _sizes(group)) > 1][-_LIKE:]
            if latest:
                curves = [fit_speedup(sizes, most) for sizes in latest]
                return SpeedUp(statistics.median(curve(n) for curve in curves) for n in range(1, most + 1))
        return None

    def _comparable(self, job: int, name: str, program: str) -> tuple[_Sizes, _Sizes]:
        """Its own step times, and those of others that run the same."""
        groups = self._groups(name)
        others = [one for one in groups.get(program, ()) if one.job != job] if program else []
        return _sizes(groups.get(job, ())), _sizes(others)

    def _groups(self, name: str) -> dict[int | str, list[StepTime]]:
        """Of each job and of each program: only within one of these can step times be compared."""
        return self._answer(name, "groups", lambda: self._grouped(name)) or {}

    def _grouped(self, name: str) -> dict[int | str, list[StepTime]]:
        groups: dict[int | str, list[StepTime]] = defaultdict(list)
        for one in self._named[name].values():
            groups[one.job].append(one)
            if one.program:
                groups[one.program].append(one)
        return dict(groups)

    def _penalty(self, job: int, user: str, name: str, program: str) -> float | None:
        times: dict[tuple[str | int, int], dict[int, list[StepTime]]] = {}
        for one in self._named[name].values():
            times.setdefault((one.program or one.job, one.workers), {}).setdefault(one.nodes, []).append(one)
        lost: list[tuple[StepTime, float]] = []
        for by_nodes in times.values():
            few = statistics.median(one.seconds for one in by_nodes[min(by_nodes)])
            if min(by_nodes) == 1:
                lost += [(one, 1 - few / one.seconds) for n, many in by_nodes.items() if n > 1 for one in many]
        levels = (
            [part for one, part in lost if one.job == job],
            [part for one, part in lost if one.program == program],
            [part for one, part in lost if one.user == user],
            [part for _, part in lost],
        )
        alike = next((level for level in levels if level), None)
        return min(_MOST_LOST, max(0.0, statistics.median(alike))) if alike else None

    def _drop(self, key: _Key) -> None:
        name = self._known.pop(key).name
        del self._named[name][key]
        self._told.pop(name, None)
        if not self._named[name]:
            del self._named[name]


def _sizes(times: Iterable[StepTime]) -> _Sizes:
    """Seconds by size. Where that was measured in several ways, as on the fewest nodes."""
    found: dict[int, dict[int, list[float]]] = {}
    for one in times:
        found.setdefault(one.workers, {}).setdefault(one.nodes, []).append(one.seconds)
    return {workers: by_nodes[min(by_nodes)] for workers, by_nodes in found.items()}


def _completed(own: _Sizes, same: _Sizes) -> _Sizes:
    """The job's own step times, and for other sizes those of its program, at its own pace where both are known."""
    ratios = [statistics.median(own[n]) / statistics.median(same[n]) for n in own if n in same]
    pace = statistics.median(ratios) if ratios else 1.0
    return {**{n: [seconds * pace for seconds in times] for n, times in same.items()}, **own}


@lru_cache(maxsize=2_000)
def program_of(image: str | None, command: str | tuple[str, ...]) -> str:
    """Tells programs apart, in few characters; "" for none."""
    if not command:
        return ""
    return hashlib.sha256(f"{image}\0{command!r}".encode()).hexdigest()[:12]
