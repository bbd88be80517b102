"""What the live service knows of jobs beyond what their users said. Implements `policies.stages.Facts`."""

import math

from schedulearn.domain.ids import JobId
from schedulearn.domain.job import Job
from schedulearn.domain.speedup import SpeedUp, assumed_speedup
from schedulearn.domain.states import JobState
from schedulearn.estimate.facts import ASSUMED_PENALTY
from schedulearn.estimate.features import Features
from schedulearn.estimate.history import Finished, History
from schedulearn.estimate.remaining import remaining_by_steps
from schedulearn.store import Store

_LOOK_EVERY = 2.0  # seconds between two looks at the steps of running jobs
_MOVES_EVERY = 300.0  # seconds between two looks at what moves have cost
_RESTART_COST = 10.0  # seconds: to save, stop, start Python again and load; a guess on the careful side
_REMEMBERED = 1000  # finished jobs that are learned from
_FEW = 50  # are looked at first: mostly no more have ended since the last look


class LiveFacts:
    """Steps where a job said how many there are, else the durations of earlier jobs like it."""

    steady = False  # a job may turn out to be slower than was thought

    def __init__(self, store: Store) -> None:
        self._store = store
        self._history: History | None = None
        self._steps: dict[JobId, int] = {}
        self._looked_at = -math.inf
        self._moves, self._moves_read_at = (0, 0.0), -math.inf  # of all jobs: how many, and seconds lost in them

    def remaining(self, job: Job, now: float) -> float:
        self._look(now)
        ran = job.ran.at(now)
        step = self._steps.get(job.id)
        if job.spec.steps and step and (by_steps := remaining_by_steps(ran, step, job.spec.steps)):
            return by_steps.expected
        known = self._past().remaining(job.user, job.spec.name, slots_of(job), ran)
        return known.expected if known else math.inf

    def duration(self, job: Job) -> float:
        known = self._past().duration(job.user, job.spec.name, slots_of(job))
        return known.expected if known else math.inf

    def speedup(self, job: Job) -> SpeedUp:
        return assumed_speedup(job.shape.workers.max)

    def restart_cost(self, job: Job) -> float:
        """As its own moves have shown, else those of all jobs, else a guess."""
        count, seconds = (job.migrations, job.migration_seconds) if job.migrations else self._moves
        return seconds / count if count else _RESTART_COST

    def locality_penalty(self, job: Job) -> float:  # noqa: ARG002 - nothing is measured for single jobs yet
        return ASSUMED_PENALTY

    def _look(self, now: float) -> None:
        """See how far running jobs are, if that was not done just now."""
        if now - self._looked_at < _LOOK_EVERY:
            return
        self._looked_at = now
        rows, _ = self._store.list_jobs([JobState.RUNNING], limit=10_000)
        self._steps = {row.job.id: row.progress.step for row in rows if row.progress}
        if now - self._moves_read_at >= _MOVES_EVERY:
            self._moves, self._moves_read_at = self._store.migrations(), now

    def learn(self, job: Job) -> None:
        self._past().learn(_finished(job))

    def _past(self) -> History:
        # Read when first asked for: most policies never ask.
        if self._history is None:
            self._history = PastJobs(self._store).read()
        return self._history


class PastJobs:
    """The jobs in the store that finished well. Not thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last = (-math.inf, JobId(0))  # when the last one ended that is known, and which it was
        self._history = History()

    def read(self) -> History:
        """What is known by now; only what ended since the last time is learned anew."""
        jobs = self._latest(_FEW)
        if len(jobs) == _FEW and _ended(jobs[-1]) > self._last:
            jobs = self._latest(_REMEMBERED)
        for job in reversed(jobs):
            if _ended(job) > self._last:
                self._history.learn(_finished(job))
                self._last = _ended(job)
        return self._history

    def _latest(self, count: int) -> list[Job]:
        rows, _ = self._store.list_jobs([JobState.SUCCEEDED], sort="finished_at", descending=True, limit=count)
        return [row.job for row in rows]


def slots_of(job: Job) -> int:
    """The GPUs that it asks for, of all its workers."""
    return job.shape.workers.want * job.shape.gpus


def _ended(job: Job) -> tuple[float, JobId]:
    return job.finished_at or 0.0, job.id


def _finished(job: Job) -> Finished:
    return Finished(job.user, job.spec.name, slots_of(job), job.ran.value, _features(job))


def _features(job: Job) -> Features:
    """What it asked for altogether; what it used of that is not measured."""
    return dict(job.shape.per_worker * job.shape.workers.want)
