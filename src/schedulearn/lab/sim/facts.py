"""What policies are told of simulated jobs; here everything, in `learned.py` what a live service would know."""

import math
from typing import Any, Protocol

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.core.policies.stages import Facts, Known
from schedulearn.lab.sim.model import JobModel


class SimulatedFacts(Facts, Protocol):
    """What the simulation asks and tells besides."""

    def begin(self, models: dict[JobId, JobModel]) -> None:
        """The jobs that are there, now and later."""

    def batch(self, job: Job) -> int | None:
        """The batch size that it is told to train with now; None: the best in truth."""

    def work(self, job: Job, now: float) -> Estimate | None:
        """Core-seconds that it still takes; None where nothing is known."""

    def runs(self, model: JobModel, begins: float, rate: float) -> None:
        """It does so much work in a second from `begins` on."""

    def next_news(self) -> float | None:
        """When something may be learned by which a decision might differ."""

    def learn(self, now: float) -> bool:
        """What can be known by now; whether a decision might differ by it."""

    def ended(self, model: JobModel, now: float) -> None:
        """A job has completed."""

    def report(self) -> dict[str, Any]:
        """Where durations came from, and how far off they were."""


class OracleFacts:
    """True durations, speed-ups and costs. Implements `SimulatedFacts`."""

    def __init__(self, *, steady: bool = True) -> None:
        """`steady`: does no job adapt its batch size, by which curves change?"""
        self.steady = steady
        self._models: dict[JobId, JobModel] = {}

    def remaining(self, job: Job, now: float) -> float:
        model = self._models[job.id]
        return max(0.0, model.left(now) - model.spared)

    def estimate(self, job: Job, now: float) -> Estimate | None:
        left = self.remaining(job, now)
        return Estimate(left, left, left, "the trace")

    def duration(self, job: Job) -> float:
        return self._models[job.id].work

    def speedup(self, job: Job) -> SpeedUp:
        return self._models[job.id].speedup

    def known(self, job: Job, now: float) -> Known:  # noqa: ARG002 - it never changes
        trace = self._models[job.id].trace
        return Known(True, trace.speedup is not None or trace.adaptive is not None, True, True)

    def measured_up_to(self, job: Job) -> int:
        return job.shape.workers.max

    def restart_cost(self, job: Job) -> float:
        return self._models[job.id].restart_cost

    def locality_penalty(self, job: Job) -> float:
        return self._models[job.id].locality_penalty

    def metric(self, job: Job, now: float, since: float = -math.inf) -> float | None:
        return newest(self._models[job.id], now, since)

    def begin(self, models: dict[JobId, JobModel]) -> None:
        self._models = models

    def batch(self, job: Job) -> int | None:  # noqa: ARG002 - it is always the best
        return None

    def work(self, job: Job, now: float) -> Estimate | None:
        work = self.remaining(job, now) * self._models[job.id].trace.cpus * job.shape.workers.want
        return Estimate(work, work, work, "the trace")

    def runs(self, model: JobModel, begins: float, rate: float) -> None:
        """There is nothing to learn."""

    def next_news(self) -> float | None:
        return None

    def learn(self, now: float) -> bool:  # noqa: ARG002 - there is nothing to learn
        return False

    def ended(self, model: JobModel, now: float) -> None:
        """There is nothing to learn."""

    def report(self) -> dict[str, Any]:
        return {"source": "oracle"}


def newest(model: JobModel, now: float, since: float) -> float | None:
    """The last value that the job has reported, if it did so after `since`."""
    values = model.reported(since, now)
    return values[-1] if values else None
