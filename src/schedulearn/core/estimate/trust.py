"""Which sources of estimates are to be believed: each is scored when a job ends, against what else was known."""

import math
import statistics
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping

_LEAST = 5  # scores, before which a source is believed
_KEPT = 100  # the latest scores that count
_MOST_OPEN = 20_000  # jobs whose end is awaited


class Trust:
    """A prediction is of a job's whole duration, and is taken when the source first has an answer for it."""

    def __init__(self) -> None:
        self._open: dict[int, dict[str, tuple[float, float | None]]] = {}  # by job and source: told, and without it
        self._scores: dict[str, deque[tuple[float, float]]] = defaultdict(lambda: deque(maxlen=_KEPT))

    def is_noted(self, job: int, source: str) -> bool:
        return source in self._open.get(job, ())

    def note(self, job: int, source: str, told: float, without: float | None) -> None:
        """`without`: what would be known if the source said nothing."""
        if len(self._open) >= _MOST_OPEN:
            self._open.clear()
        self._open.setdefault(job, {})[source] = told, without

    def ended(self, job: int, true: float) -> None:
        """It succeeded after so long."""
        for source, (told, without) in self._open.pop(job, {}).items():
            if without is not None:
                self._scores[source].append((_error(told, true), _error(without, true)))

    def believes(self, source: str) -> bool:
        """Unless it does worse than what is known without it."""
        scores = self._scores.get(source, ())
        if len(scores) < _LEAST:
            return True
        own, without = _medians(scores)
        return own <= without

    @property
    def errors(self) -> Mapping[str, tuple[int, float, float]]:
        """Of each source: how often it was scored, its median error and the one without it, as parts of the truth."""
        return {source: (len(scores), *_medians(scores)) for source, scores in self._scores.items()}


def _medians(scores: Iterable[tuple[float, float]]) -> tuple[float, float]:
    own, without = (math.expm1(statistics.median(column)) for column in zip(*scores, strict=True))
    return own, without


def _error(told: float, true: float) -> float:
    """Twice as long and half as long are as bad."""
    return abs(math.log(max(told, 1.0) / max(true, 1.0)))
