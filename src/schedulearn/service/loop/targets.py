"""Watches for jobs whose training is good enough: now and then a look at the latest values of those with a target.

Points are stored where they arrive, perhaps in another process; a target makes that no slower.
"""

import math
from collections.abc import Mapping

from schedulearn.core.domain.events import TargetReached
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.states import JobState
from schedulearn.core.domain.target import LATEST, reached
from schedulearn.store import Store

_EVERY = 2.0  # seconds between two looks


class Targets:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._looked_at = -math.inf

    def look(self, jobs: Mapping[JobId, Job], now: float) -> list[TargetReached]:
        """The jobs that have reached their targets by now; one query, and none while no running job has a target."""
        if now - self._looked_at < _EVERY:
            return []
        self._looked_at = now
        running = {number: job for number, job in jobs.items() if _is_watched(job)}
        if not running:
            return []
        values = self._store.latest_values({job.id: job.spec.metric.name for job in running.values()}, LATEST)
        return [event for number, latest in values.items() if (event := _judged(running[number], latest, now))]


def _is_watched(job: Job) -> bool:
    return job.spec.target is not None and job.reached_at is None and job.state is JobState.RUNNING


def _judged(job: Job, values: list[float], now: float) -> TargetReached | None:
    target = job.spec.target
    value = reached(values, job.spec.metric.goal, target.value) if target else None
    return None if target is None or value is None else TargetReached(now, job.id, target, value, tuple(values))
