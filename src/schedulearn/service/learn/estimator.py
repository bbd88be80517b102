"""How long jobs still run: by their steps, their loss, and the jobs that the store has seen to the end."""

import math
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar
from weakref import WeakKeyDictionary, proxy

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.states import JobState
from schedulearn.core.estimate import combine
from schedulearn.core.estimate.features import Features, numbers_in
from schedulearn.core.estimate.history import Finished, History
from schedulearn.core.estimate.loss import Flattening, Points
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.store import Progress, Store

_REMEMBERED = 1000  # finished jobs that are learned from
_FEW = 50  # are looked at first: mostly no more have ended since the last look
_MAKING = threading.Lock()
_CURVE = 500  # points of a curve that are read to see when it flattens


class Estimator:
    """Reads the store when it is first asked, and again after `refresh`. Not thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._past_jobs = PastJobs.of(store)
        self._past: History | None = None
        self._flattening = Flattening()

    def refresh(self) -> None:
        """Jobs may have ended since."""
        self._past = None

    @property
    def history(self) -> History:
        if self._past is None:
            self._past = self._past_jobs.read()
        return self._past

    def remaining(
        self, job: Job, progress: Progress | None, now: float, step_time: float | None = None
    ) -> Estimate | None:
        """Seconds that it still runs, once it runs; None where nothing is known. `step_time`: None: the mean so far."""
        facts = combine.Facts(
            job.user,
            job.spec.name,
            slots_of(job),
            ran=job.ran.at(now),
            step=progress.step if progress else None,
            steps=job.spec.steps,
            step_time=step_time,
            flat=self._flat(job, progress) if progress and not job.spec.steps else None,
            features=_features(job),
            time_limit=job.time_limit,
        )
        return combine.remaining(facts, self.history)

    def work(self, job: Job, progress: Progress | None, used: float, per_step: float | None) -> Estimate | None:
        """The same in core-seconds, by what it has used so far, in all and for a step; None: its steps do not tell."""
        if progress is None or per_step is None:
            return None
        flat = None if job.spec.steps else self._flat(job, progress)
        steps = combine.Facts(
            job.user,
            job.spec.name,
            slots_of(job),
            ran=used,
            step=progress.step,
            steps=job.spec.steps,
            step_time=per_step,
            flat=flat,
        )
        return combine.remaining(steps)

    def duration(self, job: Job) -> Estimate | None:
        """Seconds that such a job runs altogether."""
        return self.history.duration(job.user, job.spec.name, slots_of(job), _features(job))

    def _flat(self, job: Job, progress: Progress) -> Estimate | None:
        def points(_: int) -> Points:
            return [(point.step, point.value) for point in self._store.curve(job.id, progress.metric, _CURVE)]

        return self._flattening.of(job.id, progress.count, points, job.spec.metric.goal)


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
                self._history.learn(_finished(job))
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


def slots_of(job: Job) -> int:
    """The GPUs that it asks for, of all its workers."""
    return job.shape.workers.want * job.shape.gpus


def _ended(job: Job) -> tuple[float, JobId]:
    return job.finished_at or 0.0, job.id


def _finished(job: Job) -> Finished:
    return Finished(job.user, job.spec.name, slots_of(job), job.ran.value, _features(job))


def _features(job: Job) -> Features:
    """The numbers of its command line, and what it asked for altogether; what it used of that is not measured."""
    return {**_numbers(job.spec.command), **job.shape.per_worker * job.shape.workers.want}


@lru_cache(maxsize=2_000)  # a policy asks for every job at every decision
def _numbers(command: str | Sequence[str]) -> Features:
    return numbers_in(command)
