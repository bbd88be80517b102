"""How long jobs take to stop and start again, measured as it happens and kept in the store."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from schedulearn.core.domain.ids import AttemptId, JobId
from schedulearn.core.domain.job import Attempt, Job
from schedulearn.core.domain.states import JobState, StopReason
from schedulearn.core.estimate.restarts import GUESS, Restart, RestartCosts
from schedulearn.store import Store

_LOOK_EVERY = 1.0  # seconds between two looks for the first progress of restarted jobs
_PATIENCE = 3600.0  # seconds without any progress after which it is not waited for any more
_SETTING = "restart_costs"
_OURS = frozenset({StopReason.PREEMPT, StopReason.RESIZE, StopReason.MIGRATE})  # stopped by the scheduler itself


@dataclass(frozen=True, slots=True)
class _Awaited:
    """A job that was started again, and has not shown that it is back at work."""

    attempt: AttemptId
    user: str
    name: str
    stopping: float  # seconds that the attempt before took to save and stop
    created_at: float
    started_at: float
    reports: bool  # whether it has reported progress before: then its first step tells, else its start


class Restarts:
    """Not thread-safe. Only a scheduler measures; what it learned is there for all readers of the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._costs: RestartCosts | None = None
        self._awaited: dict[AttemptId, _Awaited] = {}
        self._looked_at = -math.inf

    def cost(self, job: Job) -> float:
        """Seconds that stopping this job and starting it again will probably take."""
        measured = self._measured(job)
        return GUESS if measured is None else measured

    def is_measured(self, job: Job) -> bool:
        return self._measured(job) is not None

    def _measured(self, job: Job) -> float | None:
        return self._known().cost(job.id, job.user, job.spec.name)

    def refresh(self) -> None:
        """Another process may have learned more."""
        self._costs = None

    def started(self, attempts: Iterable[Attempt], jobs: Mapping[JobId, Job]) -> None:
        """Those of these attempts that are restarts, and run, are measured from now on."""
        for attempt in attempts:
            job, number = jobs.get(attempt.id.job), attempt.id.number
            if not job or number == 1 or attempt.ended_at is not None or not attempt.all_started:
                continue
            if attempt.generation:
                continue  # it has long been back at work: some of its workers joined later
            if attempt.id not in self._awaited and not self._known().knows(job.id, number):
                self._await(job, attempt)

    def look(self, jobs: Mapping[JobId, Job], now: float) -> None:
        """See which of them are back at work."""
        if not self._awaited or now - self._looked_at < _LOOK_EVERY:
            return
        self._looked_at = now
        measured = [one for awaited in list(self._awaited.values()) if (one := self._measure(awaited, jobs, now))]
        for restart in measured:
            self._known().learn(restart)
        if measured:
            self._store.set_setting(_SETTING, [list(restart) for restart in self._known()])

    def _await(self, job: Job, attempt: Attempt) -> None:
        number = attempt.id.number - 1
        before = next(iter(self._store.attempts_of(job.id, number, number)), None)
        if before is None or before.stop not in _OURS or before.stop_asked_at is None or before.ended_at is None:
            return
        self._awaited[attempt.id] = _Awaited(
            attempt.id,
            job.user,
            job.spec.name,
            stopping=max(0.0, before.ended_at - before.stop_asked_at),
            created_at=attempt.created_at,
            started_at=max(worker.started_at or 0.0 for worker in attempt.workers),
            reports=bool(self._store.series_of(job.id, limit=1)),
        )

    def _measure(self, awaited: _Awaited, jobs: Mapping[JobId, Job], now: float) -> Restart | None:
        """What it took, once that is known; None while it is not, or if it was stopped before it got anywhere."""
        attempt, job = awaited.attempt, jobs.get(awaited.attempt.job)
        runs = job is not None and job.attempt == attempt.number and job.state is JobState.RUNNING
        back = self._back_at(awaited, now)
        if back is None and runs:
            return None
        del self._awaited[attempt]
        if back is None:
            return None
        seconds = awaited.stopping + max(0.0, back - awaited.created_at)
        return Restart(attempt.job, attempt.number, awaited.user, awaited.name, seconds)

    def _back_at(self, awaited: _Awaited, now: float) -> float | None:
        """When it was back at work, as far as can be seen."""
        if not awaited.reports:
            return awaited.started_at
        first = self._store.first_progress(awaited.attempt.job, awaited.created_at)
        if first is None and now >= awaited.started_at + _PATIENCE:
            return now  # it takes at least so long
        return first

    def _known(self) -> RestartCosts:
        if self._costs is None:
            self._costs = RestartCosts(Restart(*one) for one in self._store.setting(_SETTING, []))
        return self._costs
