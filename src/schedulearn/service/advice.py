"""What is told to the user about one job: how heavy it is, and whether it asks for what jobs like it have used."""

import threading

from schedulearn.domain.job import Job
from schedulearn.domain.resources import CPUS, MEMORY
from schedulearn.domain.states import FINISHED
from schedulearn.estimate.history import History
from schedulearn.estimate.remaining import Estimate, remaining_by_steps
from schedulearn.estimate.weight import Asked, Weight, hint, weigh
from schedulearn.service.facts import PastJobs, slots_of
from schedulearn.service.views import Advice
from schedulearn.store import JobRow, Store

_READ_EVERY = 2.0  # seconds: a burst of submissions must not look for finished jobs each time


class Adviser:
    """Works in any process: it knows what the store says, and looks there again after a while."""

    def __init__(self, store: Store) -> None:
        self._lock = threading.Lock()
        self._past_jobs = PastJobs(store)
        self._history: History | None = None
        self._read_at = 0.0

    def advise(self, row: JobRow, now: float) -> Advice:
        job = row.job
        with self._lock:
            history = self._past(now)
            duration = _duration(row, history, now)
            like = history.like(job.user, job.spec.name)
        return Advice(_weight(job, duration), hint(_asked(job), like))

    def _past(self, now: float) -> History:
        if self._history is None or not 0 <= now - self._read_at < _READ_EVERY:
            self._history, self._read_at = self._past_jobs.read(), now
        return self._history


def _weight(job: Job, duration: Estimate | None) -> Weight | None:
    if job.state in FINISHED:
        took = job.attained.value
        return Weight(Estimate(took, took, took, "what it took"), "GPU-seconds" if job.shape.gpus else "core-seconds")
    if duration is None:
        return None
    return weigh(duration, job.shape.workers.want, job.shape.gpus, job.shape.per_worker[CPUS])


def _duration(row: JobRow, history: History, now: float) -> Estimate | None:
    """Seconds that it runs altogether: by its steps, else by jobs like it; its time limit ends it in any case."""
    job, ran = row.job, row.job.ran.at(now)
    known: Estimate | None = None
    if job.spec.steps and row.progress:
        known = remaining_by_steps(ran, row.progress.step, job.spec.steps)
    known = known or history.remaining(job.user, job.spec.name, slots_of(job), ran)
    limit = job.time_limit
    if known:
        return known.after(ran) if limit is None else known.after(ran).at_most(limit)
    return None if limit is None else Estimate(min(ran, limit), limit, limit, "its time limit")


def _asked(job: Job) -> Asked:
    altogether = job.shape.per_worker * job.shape.workers.want
    return Asked(job.time_limit, slots_of(job) or None, altogether[CPUS] or None, altogether[MEMORY] or None)
