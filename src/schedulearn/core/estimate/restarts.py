"""What it costs to stop a job and start it again: the median of what that took before, of this job or of its like."""

import statistics
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from schedulearn.core.estimate.remaining import LEAST_JOBS

GUESS = 10.0  # seconds: to save, stop, start Python again and load; on the careful side, until one was measured
_KEPT = 200  # restarts that are remembered


class Restart(NamedTuple):
    """One that was measured."""

    job: int
    attempt: int  # the one that was started
    user: str
    name: str
    seconds: float  # to save and stop, and then from its start to its next step; the time it waited is left out


class RestartCosts:
    """Learns from each restart. The latest count: a program, or its data, may change."""

    def __init__(self, known: Iterable[Restart] = ()) -> None:
        self._known = deque(known, maxlen=_KEPT)
        self._costs: dict[tuple[int, str, str], float | None] = {}  # policies ask often, and restarts are rare

    def __iter__(self) -> Iterator[Restart]:
        return iter(self._known)

    def learn(self, restart: Restart) -> None:
        self._known.append(restart)
        self._costs.clear()

    def knows(self, job: int, attempt: int) -> bool:
        return any(restart[:2] == (job, attempt) for restart in self._known)

    def cost(self, job: int, user: str, name: str) -> float | None:
        """Seconds: of this job, else of its user's jobs of its name, else of its name, else of several others."""
        key = job, user, name
        if key not in self._costs:
            self._costs[key] = self._cost(*key)
        return self._costs[key]

    def _cost(self, job: int, user: str, name: str) -> float | None:
        known = list(self._known)
        levels = (
            [one for one in known if one.job == job],
            [one for one in known if (one.user, one.name) == (user, name)],
            [one for one in known if one.name == name],
            known if len(known) >= LEAST_JOBS else [],
        )
        alike = next((level for level in levels if level), None)
        return statistics.median(one.seconds for one in alike) if alike else None
