"""How long jobs still run: by their steps, their loss, and the jobs that the store has seen to the end."""

import math
import threading
from collections.abc import Mapping, Sequence
from typing import ClassVar
from weakref import WeakKeyDictionary, proxy

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.states import JobState
from schedulearn.core.estimate.features import Features
from schedulearn.core.estimate.history import Finished, History
from schedulearn.core.estimate.jobs import JobEstimates, Seen, duration, finished
from schedulearn.core.estimate.loss import Points
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.core.estimate.trust import SourceErrors, Trust
from schedulearn.store import Progress, Store

_REMEMBERED = 1000  # finished jobs that are learned from
_FEW = 50  # are looked at first: mostly no more have ended since the last look
_MAKING = threading.Lock()
_SCORES, _TOLD = "estimate_scores", "estimates_told"  # settings
_KEEP_EVERY = 10.0  # seconds between two times that what was told is kept; scores are at once
_CURVE = 500  # points of a curve that are read to see when it flattens


class Estimator:
    """Reads the store when it is first asked, and again after `refresh`. Not thread-safe.

    How far off estimates were is in the store, so that a restart forgets nothing. One keeps it there; others read it.
    """

    def __init__(self, store: Store, keeps: bool = False) -> None:
        self._store, self._keeps = store, keeps
        self._past_jobs = PastJobs.of(store)
        self._past: History | None = None
        self._estimates = JobEstimates()
        self._is_stale, self._scored = True, False
        self._kept, self._kept_at = 0, -math.inf  # changes of the trust that were kept, and when

    def refresh(self) -> None:
        """Jobs may have ended since."""
        self._past = None
        self._is_stale |= not self._keeps

    @property
    def history(self) -> History:
        if self._past is None:
            self._past = self._past_jobs.read()
        return self._past

    def remaining(
        self, job: Job, progress: Progress | None, now: float, step_time: float | None = None
    ) -> Estimate | None:
        """Seconds that it still runs, once it runs; None where nothing is known. `step_time`: None: the mean so far."""
        return self._current.remaining(job, self._seen(job, progress), self.history, now, step_time)

    def work(self, job: Job, progress: Progress | None, used: float, per_step: float | None) -> Estimate | None:
        """The same in core-seconds, by what it has used so far, in all and for a step; None: its steps do not tell."""
        return self._current.work(job, self._seen(job, progress), used, per_step)

    def duration(self, job: Job) -> Estimate | None:
        """Seconds that such a job runs altogether."""
        return duration(job, self.history)

    def ended(self, job: Job, now: float) -> None:
        """What was told of it is scored, if it has succeeded."""
        if job.state is JobState.SUCCEEDED:
            self._current.ended(job, now)
            self._scored = True
        else:
            self._current.trust.forget(job.id)

    def awaits(self, job: Job) -> bool:
        """Whether something was told of it, to be scored when it ends."""
        return self._current.trust.awaits(job.id)

    def keep(self, now: float) -> None:
        """What has changed since the last time."""
        trust = self._current.trust
        if trust.changes != self._kept and (self._scored or now - self._kept_at >= _KEEP_EVERY):
            self._scored, self._kept, self._kept_at = False, trust.changes, now
            self._store.set_setting(_SCORES, trust.scores)
            self._store.set_setting(_TOLD, trust.told)

    def errors(self) -> Mapping[str, SourceErrors]:
        """How far off each source was."""
        return self._current.trust.errors

    @property
    def _current(self) -> JobEstimates:
        if self._is_stale:
            told = self._store.setting(_TOLD, ()) if self._keeps else ()
            self._estimates.trust = Trust(self._store.setting(_SCORES), told)
            self._is_stale, self._kept = False, self._estimates.trust.changes
        return self._estimates

    def _seen(self, job: Job, progress: Progress | None) -> Seen | None:
        if progress is None:
            return None

        def points(_: int) -> Points:
            return [(point.step, point.value) for point in self._store.curve(job.id, progress.metric, _CURVE)]

        return Seen(progress.step, progress.updated_at, progress.count, points)


class PastJobs:
    """The jobs in the store that succeeded. Any thread may ask."""

    _of: ClassVar[WeakKeyDictionary[Store, "PastJobs"]] = WeakKeyDictionary()

    def __init__(self, store: Store) -> None:
        self._store = proxy(store)
        self._lock = threading.Lock()  # one reads, and others may use what it finds
        self._last = (-math.inf, JobId(0))  # when the last one ended that is known, and which it was
        self._history = _SharedHistory()

    @classmethod
    def of(cls, store: Store) -> "PastJobs":
        """One for all readers of a store: thousands of jobs need not be remembered by each of them."""
        with _MAKING:
            if (known := cls._of.get(store)) is None:
                known = cls._of[store] = cls(store)
            return known

    def read(self) -> History:
        """What is known by now; only what ended since the last time is learned anew."""
        with self._lock:
            newest = self._store.last_succeeded()
            if newest is not None and newest > self._last:
                self._learn()
            return self._history

    def _learn(self) -> None:
        jobs = self._latest(_FEW)
        if len(jobs) == _FEW and _ended(jobs[-1]) > self._last:
            jobs = self._latest(_REMEMBERED)
        for job in reversed(jobs):
            if _ended(job) > self._last:
                self._history.learn(finished(job, _ended(job)[0]))
                self._last = _ended(job)

    def _latest(self, count: int) -> list[Job]:
        rows, _ = self._store.list_jobs([JobState.SUCCEEDED], sort="finished_at", descending=True, limit=count)
        return [row.job for row in rows]


class _SharedHistory(History):
    """One job at a time is learned, or looked for."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def learn(self, job: Finished) -> None:
        with self._lock:
            super().learn(job)

    def remaining(
        self, user: str, name: str, gpus: int, ran: float, features: Features | None = None
    ) -> Estimate | None:
        with self._lock:
            return super().remaining(user, name, gpus, ran, features)

    def like(self, user: str, name: str) -> Sequence[Finished]:
        with self._lock:
            return super().like(user, name)


def _ended(job: Job) -> tuple[float, JobId]:
    return job.finished_at or 0.0, job.id
