"""What the live service knows of jobs beyond what their users said. Implements `policies.stages.Facts`."""

import math
from collections.abc import Mapping

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.speedup import SpeedUp, assumed_speedup
from schedulearn.core.domain.states import JobState
from schedulearn.core.estimate.jobs import ASSUMED_PENALTY
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.core.policies.stages import Known
from schedulearn.service.learn.batching import Batching
from schedulearn.service.learn.estimator import Estimator
from schedulearn.service.learn.pace import Paces
from schedulearn.service.learn.restarts import Restarts
from schedulearn.service.learn.scaling import Scaling
from schedulearn.store import Progress, Store

_LOOK_EVERY = 2.0  # seconds between two looks at the steps of running jobs
_NOTE_EVERY = 10.0  # seconds between two looks for jobs of which nothing was told yet
_MOST_SEEN = 20_000  # jobs whose progress is remembered


class LiveFacts:
    """Steps where a job said how many there are, else when its loss flattens, else the durations of jobs like it.

    A job that a limit holds back needs no longer for that: its steps are told by the CPU that they take (`pace.py`).
    """

    steady = False  # a job may turn out to be slower than was thought

    def __init__(self, store: Store, keeps: bool = False) -> None:
        """`keeps`: what is learned of estimates goes into the store."""
        self._store = store
        self._estimator = Estimator(store, keeps)
        self.restarts = Restarts(store)
        self.scaling, self.batching = Scaling(store), Batching(store)
        self._paces = Paces()
        self._seen: dict[JobId, Progress | None] = {}  # how far jobs are, or were when they last ran
        self._asked_again: dict[JobId, float] = {}  # when jobs of which nothing was told are asked again
        self._looked_at = self._noted_at = -math.inf

    def refresh(self) -> None:
        """Jobs have ended, or been started again, since the store was last read: look there when next asked."""
        self._estimator.refresh()
        self.restarts.refresh()
        self.scaling.refresh()
        self.batching.refresh()

    def ended(self, job: Job, now: float) -> None:
        """How good was what was told of it?"""
        self._estimator.ended(job, now)

    def look(self, jobs: Mapping[JobId, Job], now: float) -> None:
        """Note what is told of running jobs, whatever their policy asks for; keep it, and what was scored."""
        if now - self._noted_at >= _NOTE_EVERY:
            self._noted_at = now
            awaits = self._estimator.awaits
            running = (one for one in jobs.values() if one.state is JobState.RUNNING)
            new = {one.id: one for one in running if self._asked_again.get(one.id, now) <= now and not awaits(one)}
            for number in self._store.latest_steps({number: one.spec.metric.name for number, one in new.items()}):
                self._note(new[number], now)
        self._estimator.keep(now)

    def _note(self, job: Job, now: float) -> None:
        """A curve that tells nothing yet is asked again when it has grown by a quarter."""
        if row := self._store.job(job.id):
            self._estimator.remaining(job, row.progress, now, self._paces.step_time(job))
        if len(self._asked_again) > _MOST_SEEN:
            self._asked_again.clear()
        self._asked_again[job.id] = now + job.ran.at(now) / 4

    def estimate(self, job: Job, now: float) -> Estimate | None:
        """Seconds that it still runs, once it runs and nothing holds it back; None where nothing is known."""
        progress = self._progress(job, now)
        step_time = self._paces.step_time(job) or self.scaling.step_time(job, self.speedup(job))
        return self._estimator.remaining(job, progress, now, step_time)

    def remaining(self, job: Job, now: float) -> float:
        estimate = self.estimate(job, now)
        return estimate.expected if estimate else math.inf

    def duration(self, job: Job) -> float:
        estimate = self._estimator.duration(job)
        return estimate.expected if estimate else math.inf

    def speedup(self, job: Job) -> SpeedUp:
        known = self.batching.goodputs.speedup(job) if job.spec.batch else None
        return known or self.scaling.speedup(job) or assumed_speedup(job.shape.workers.max)

    def known(self, job: Job, now: float) -> Known:
        if self._is_adaptive(job):
            has_curve = self.batching.goodputs.is_measured(job)
        else:
            has_curve = self.scaling.speedup(job) is not None
        has_penalty = self.scaling.locality_penalty(job) is not None
        return Known(self.estimate(job, now) is not None, has_curve, self.restarts.is_measured(job), has_penalty)

    def measured_up_to(self, job: Job) -> int:
        return (self.batching.goodputs if self._is_adaptive(job) else self.scaling).measured_up_to(job)

    def _is_adaptive(self, job: Job) -> bool:
        """Whether it is known what it learns with the best batch."""
        return job.spec.batch is not None and self.batching.goodputs.speedup(job) is not None

    def restart_cost(self, job: Job) -> float:
        return self.restarts.cost(job)

    def locality_penalty(self, job: Job) -> float:
        penalty = self.scaling.locality_penalty(job)
        return ASSUMED_PENALTY if penalty is None else penalty

    def metric(self, job: Job, now: float, since: float = -math.inf) -> float | None:
        progress = self._progress(job, now)
        if progress is None or progress.updated_at <= since or math.isnan(progress.value):
            return None
        return progress.value

    def _progress(self, job: Job, now: float) -> Progress | None:
        if not job.attempt:
            return None
        if now - self._looked_at >= _LOOK_EVERY:
            self._look(now)
        if job.id not in self._seen:  # it has run before, and waits
            row = self._store.job(job.id)
            self._seen[job.id] = row.progress if row else None
        return self._seen[job.id]

    def _look(self, now: float) -> None:
        """See how far running jobs are, and what they use."""
        self._looked_at = now
        if len(self._seen) > _MOST_SEEN:
            self._seen.clear()
        rows, _ = self._store.list_jobs([JobState.RUNNING], limit=10_000)
        self._seen.update((row.job.id, row.progress) for row in rows)
        self._paces.look(rows, self._store.usage_now(), now)
