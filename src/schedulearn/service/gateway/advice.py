"""What is told to the user of one job: how heavy it is, how it scales, whether it asks for what its like have used."""

import threading

from schedulearn.core.domain.job import Job
from schedulearn.core.domain.resources import CPUS, MEMORY
from schedulearn.core.domain.states import FINISHED
from schedulearn.core.estimate.jobs import slots_of
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.core.estimate.weight import Asked, Weight, hint, weigh
from schedulearn.service.gateway.views import Advice
from schedulearn.service.learn.estimator import Estimator
from schedulearn.service.learn.scaling import Scaling
from schedulearn.store import JobRow, Store
from schedulearn.wire import types

_READ_EVERY = 2.0  # seconds: a burst of submissions must not look for finished jobs each time


class Adviser:
    """Works in any process: it knows what the store says, and looks there again after a while."""

    def __init__(self, store: Store) -> None:
        self._lock = threading.Lock()
        self._estimator = Estimator(store)
        self._scaling = Scaling(store)
        self._read_at = 0.0

    def advise(self, row: JobRow, now: float) -> Advice:
        job = row.job
        with self._lock:
            self._look(now)
            left = self._estimator.remaining(job, row.progress, now)
            like = self._estimator.history.like(job.user, job.spec.name)
            speedup = self._speedup(job)
            errors = self._errors().get(left.source) if left else None
        weight = _weight(job, left and left.after(job.ran.at(now)))
        return Advice(weight, hint(_asked(job), like), speedup, errors=errors)

    def errors(self, now: float) -> list[types.SourceErrors]:
        """How far off estimates were on this service, by source."""
        with self._lock:
            self._look(now)
            return list(self._errors().values())

    def _errors(self) -> dict[str, types.SourceErrors]:
        return {
            source: types.SourceErrors(
                source=source,
                count=one.count,
                error=round(one.error, 4),
                without=round(one.without, 4),
                believed=one.believed,
            )
            for source, one in self._estimator.errors().items()
        }

    def _look(self, now: float) -> None:
        if not 0 <= now - self._read_at < _READ_EVERY:
            self._estimator.refresh()
            self._scaling.refresh()
            self._read_at = now

    def _speedup(self, job: Job) -> types.SpeedUp | None:
        """At the largest size that was measured of it, else at the largest it may have."""
        curve = self._scaling.speedup(job)
        if curve is None:
            return None
        sizes = self._scaling.measured(job)
        workers = sizes[-1] if len(sizes) > 1 else job.shape.workers.max
        return types.SpeedUp(workers=workers, value=round(curve(workers), 3), measured=len(sizes) > 1)


def _weight(job: Job, duration: Estimate | None) -> Weight | None:
    if job.state in FINISHED:
        took = job.attained.value
        return Weight(Estimate(took, took, took, "what it took"), "GPU-seconds" if job.shape.gpus else "core-seconds")
    if duration is None:
        return None
    return weigh(duration, job.shape.workers.want, job.shape.gpus, job.shape.per_worker[CPUS])


def _asked(job: Job) -> Asked:
    altogether = job.shape.per_worker * job.shape.workers.want
    return Asked(job.time_limit, slots_of(job) or None, altogether[CPUS] or None, altogether[MEMORY] or None)
