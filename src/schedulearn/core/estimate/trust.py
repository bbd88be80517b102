"""Which sources of estimates are to be believed: each is scored when a job ends, against what else was known.

What else was known counts: what a job's steps tell may be worse than what five runs of the same program took, and
still be far better than the durations of strangers.
"""

import math
import statistics
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_LEAST = 5  # scores, before which a source is believed
_KEPT = 100  # the latest scores that are told of
_JUDGED = 30  # of these decide whether it is believed: what has changed should show soon
_MOST_OPEN = 20_000  # jobs whose end is awaited


_AGAINST = " | "  # between a source and the other that would be asked in its place

Scores = Mapping[str, Sequence[Sequence[float]]]  # of each such pair the latest: the error, and the one without it
Told = tuple[int, str, float, float | None, str]  # of which job, by which source, what; without it, and by which other


@dataclass(frozen=True, slots=True)
class SourceErrors:
    """How far off a source was."""

    count: int  # jobs that it was scored on
    error: float  # the median, as a part of the truth
    without: float  # the median of what was known without it
    believed: bool


class Trust:
    """A prediction is of a job's whole duration, and is taken when the source first has an answer for it."""

    def __init__(self, scores: Scores | None = None, told: Iterable[Told] = ()) -> None:
        """What was kept of an earlier life."""
        # By job and source: what it told, what was known without it, and from where.
        self._open: dict[int, dict[str, tuple[float, float | None, str]]] = {}
        self._scores: dict[str, deque[tuple[float, float]]] = defaultdict(lambda: deque(maxlen=_KEPT))
        self._believed: dict[str, bool] = {}  # as it follows from the scores; asked at each decision
        self.changes = 0  # so far: what was kept of it is older if there have been more
        for source, kept in (scores or {}).items():
            self._scores[source].extend((own, without) for own, without in kept)
        for one in told:
            self.note(*one)

    @property
    def scores(self) -> Scores:
        """To be kept."""
        return {
            source: [[round(error, 4) for error in score] for score in scores]
            for source, scores in self._scores.items()
        }

    @property
    def told(self) -> list[Told]:
        """Likewise: of jobs that have not ended."""
        return [(job, source, *told) for job, by_source in self._open.items() for source, told in by_source.items()]

    def is_noted(self, job: int, source: str) -> bool:
        return source in self._open.get(job, ())

    def awaits(self, job: int) -> bool:
        """Whether some source has told something of it."""
        return job in self._open

    def note(self, job: int, source: str, told: float, without: float | None, other: str = "") -> None:
        """`without`: what would be known if the source said nothing, and which `other` source would say so."""
        if len(self._open) >= _MOST_OPEN:
            self._open.clear()
        self._open.setdefault(job, {})[source] = told, without, other
        self.changes += 1

    def ended(self, job: int, true: float) -> None:
        """It succeeded after so long."""
        for source, (told, without, other) in self._open.pop(job, {}).items():
            self.changes += 1
            if without is not None:
                pair = source + _AGAINST + other
                self._scores[pair].append((_error(told, true), _error(without, true)))
                self._believed.pop(pair, None)

    def forget(self, job: int) -> None:
        """It ended in another way."""
        self._open.pop(job, None)

    def believes(self, source: str, other: str = "") -> bool:
        """Unless it has lately done worse than the other, which would be asked in its place."""
        return self._does_no_worse(source + _AGAINST + other)

    def always_believes(self, source: str) -> bool:
        """Whatever would be asked in its place."""
        return all(self._does_no_worse(pair) for pair in self._scores if _source_of(pair) == source)

    def _does_no_worse(self, pair: str) -> bool:
        if pair not in self._believed:
            latest = list(self._scores[pair])[-_JUDGED:] if pair in self._scores else []
            own, without = _medians(latest) if len(latest) >= _LEAST else (0.0, 0.0)
            self._believed[pair] = own <= without
        return self._believed[pair]

    @property
    def errors(self) -> Mapping[str, SourceErrors]:
        """Of each source that was scored."""
        scores: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for pair, latest in self._scores.items():
            scores[_source_of(pair)] += latest
        return {
            source: SourceErrors(len(every), *_medians(every), self.always_believes(source))
            for source, every in scores.items()
        }


def _source_of(pair: str) -> str:
    return pair.partition(_AGAINST)[0]


def _medians(scores: Iterable[tuple[float, float]]) -> tuple[float, float]:
    own, without = (math.expm1(statistics.median(column)) for column in zip(*scores, strict=True))
    return own, without


def _error(told: float, true: float) -> float:
    """Twice as long and half as long are as bad."""
    return abs(math.log(max(told, 1.0) / max(true, 1.0)))
