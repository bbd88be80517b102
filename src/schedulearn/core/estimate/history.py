"""What earlier jobs tell of the next: how long jobs like it ran. Learns from each job that finishes.

A policy asks for every job at every decision, so an answer is a search in a sorted list. Memory is bounded: the last
jobs of each group, and the last jobs of all.
"""

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from schedulearn.core.estimate.features import Features, Law, learn_laws
from schedulearn.core.estimate.remaining import LEAST_JOBS, Estimate, left_of

_MOST_COMPARED = 100  # jobs whose features are looked at
_OUTRUN = 9.0  # one that outran all: half of such run as long again; 80 % between a ninth and nine times that

Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """What is remembered of a job that ran to its end."""

    user: str
    name: str
    gpus: int  # of all its workers
    seconds: float  # it ran, waiting left out
    features: Features = field(default_factory=dict)  # numbers in the command line, what it asked for
    cpus: float | None = None  # cores used, the mean
    memory: float | None = None  # bytes used, the most


Entry = tuple[int, Finished]  # numbered, because equal jobs are not the same job


class _Group:
    """The last jobs of one kind, in the order in which they ended and by their seconds."""

    __slots__ = ("_trends", "entries", "seconds")

    def __init__(self) -> None:
        self.entries: deque[Entry] = deque()
        self.seconds: list[float] = []
        self._trends: dict[frozenset[str], _Trend | None] = {}  # as learned since the last change

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        insort(self.seconds, entry[1].seconds)
        self._trends.clear()

    def drop_oldest(self) -> None:
        oldest = self.entries.popleft()[1].seconds
        del self.seconds[bisect_left(self.seconds, oldest)]
        self._trends.clear()

    def trend(self, wanted: Features) -> "_Trend | None":
        """How the latest durations depend on the features that the `wanted` have; None where they do not."""
        names = frozenset(name for name, number in wanted.items() if number > 0)
        if names not in self._trends:
            latest = (job for _, job in islice(reversed(self.entries), _MOST_COMPARED))
            seen = [(_features(job), job.seconds) for job in latest if job.seconds > 0]
            laws = learn_laws(seen, names)
            self._trends[names] = _Trend(laws, sorted(s / _pull(laws, had) for had, s in seen)) if laws else None
        return self._trends[names]


@dataclass(frozen=True, slots=True)
class _Trend:
    """Laws, and durations without what they explain: so a question costs no more than a search among these."""

    laws: Sequence[Law]
    seconds: Sequence[float]  # sorted

    def left(self, wanted: Features, ran: float, source: str) -> Estimate:
        pull = _pull(self.laws, wanted)
        return _left(self.seconds, ran / pull, source).times(pull)


def _pull(laws: Sequence[Law], features: Features) -> float:
    return math.prod(law.pull(features) for law in laws)


class History:
    """Groups of earlier jobs, from the most alike to all."""

    def __init__(self, keep: int = 500, keep_all: int = 10_000) -> None:
        """`keep` jobs are remembered of each group, `keep_all` altogether."""
        self._keep, self._keep_all = max(LEAST_JOBS, keep), max(LEAST_JOBS, keep_all)
        self._groups: dict[Key, _Group] = {}
        self._names: dict[str, float] = {}  # the median of each
        self._middles: list[float] = []  # the same, sorted
        self._latest: deque[Entry] = deque()
        self._learned = 0

    def __len__(self) -> int:
        return len(self._latest)

    def learn(self, job: Finished) -> None:
        """A job that finished well. Impossible durations are passed over."""
        if not 0 <= job.seconds < math.inf:
            return
        self._learned += 1
        entry = (self._learned, job)
        self._latest.append(entry)
        for key, _ in _levels(job.user, job.name, job.gpus):
            if (group := self._groups.get(key)) is None:
                group = self._groups[key] = _Group()
            group.add(entry)
            if len(group.entries) > self._keep:
                group.drop_oldest()
        self._note_name(job.name)
        if len(self._latest) > self._keep_all:
            self._forget(self._latest.popleft())

    def remaining(
        self, user: str, name: str, gpus: int, ran: float, features: Features | None = None
    ) -> Estimate | None:
        """Seconds that a job still runs at this size, having run for `ran`; None while too few jobs are known.

        `features` (see `Finished`) make it finer where they matter.
        """
        wanted = {**features, "gpus": gpus} if features else {}
        if wanted and (trend := self._trend(user, name, wanted)):
            return trend.left(wanted, max(0.0, ran), "jobs of the same name, adjusted to its numbers")
        for key, source in _levels(user, name, gpus):
            group = self._groups.get(key)
            if group is not None and len(group.seconds) >= LEAST_JOBS:
                if not key and name and len(self._middles) >= LEAST_JOBS:
                    # Another name is another kind of job: each counts once, however often it has run.
                    return _left(self._middles, max(0.0, ran), "jobs of other names")
                return _left(group.seconds, max(0.0, ran), source)
        return None

    def duration(self, user: str, name: str, gpus: int, features: Features | None = None) -> Estimate | None:
        """Seconds that such a job runs altogether."""
        return self.remaining(user, name, gpus, 0.0, features)

    def like(self, user: str, name: str) -> Sequence[Finished]:
        """The last jobs of the same user and name, else of the same name; empty where there are too few."""
        for key in ((user, name), (name,)):
            group = self._groups.get(key)
            if name and group is not None and len(group.entries) >= LEAST_JOBS:
                return [job for _, job in group.entries]
        return ()

    def _trend(self, user: str, name: str, wanted: Features) -> _Trend | None:
        groups = (self._groups.get(key) for key in ((user, name), (name,)) if name)
        return next((trend for group in groups if group and (trend := group.trend(wanted))), None)

    def _note_name(self, name: str) -> None:
        """Its median is another now."""
        if not name:
            return
        before = self._names.pop(name, None)
        if before is not None:
            del self._middles[bisect_left(self._middles, before)]
        if (group := self._groups.get((name,))) and group.seconds:
            middle = self._names[name] = group.seconds[len(group.seconds) // 2]
            insort(self._middles, middle)

    def _forget(self, entry: Entry) -> None:
        """Out of all groups that still have it: it is the oldest of them all, so it is each group's oldest."""
        job = entry[1]
        for key, _ in _levels(job.user, job.name, job.gpus):
            group = self._groups[key]
            if group.entries[0] is entry:
                group.drop_oldest()
            if not group.entries:
                del self._groups[key]
        self._note_name(job.name)


def _levels(user: str, name: str, gpus: int) -> Iterator[tuple[Key, str]]:
    """The groups a job belongs to, the most alike first, with words for each. An empty name or user tells nothing."""
    if name:
        if user:
            yield (user, name, gpus), "jobs of the same user, name and size"
            yield (user, name), "jobs of the same user and name"
        yield (name,), "jobs of the same name"
    if user:
        yield (None, user), "jobs of the same user"
    yield (), "all jobs"


def _left(times: Sequence[float], ran: float, source: str) -> Estimate:
    """The rest of the sorted `times` that are longer than `ran`; where hardly any is, the tail is guessed."""
    first = bisect_right(times, ran)
    if len(times) - first >= LEAST_JOBS:
        return left_of(times, first, ran, source)
    if first == len(times):
        return Estimate(ran / _OUTRUN, ran, ran * _OUTRUN, source)
    return left_of([*times[first:], 2 * times[-1]], 0, ran, source)


def _features(job: Finished) -> Features:
    return {**job.features, "gpus": job.gpus}
