"""What is assumed of a job that nothing is known of."""

import math

from schedulearn.core.domain.job import Job
from schedulearn.core.domain.speedup import SpeedUp, assumed_speedup
from schedulearn.core.estimate.remaining import Estimate

ASSUMED_PENALTY = 0.1  # of speed, for workers on several nodes: what a fast network costs most jobs


class AssumedFacts:
    """No duration is known; every job scales as jobs usually do. Implements `policies.stages.Facts`."""

    steady = True

    def remaining(self, job: Job, now: float) -> float:  # noqa: ARG002 - the protocol's
        return math.inf

    def estimate(self, job: Job, now: float) -> Estimate | None:  # noqa: ARG002
        return None

    def duration(self, job: Job) -> float:  # noqa: ARG002
        return math.inf

    def speedup(self, job: Job) -> SpeedUp:
        return assumed_speedup(job.shape.workers.max)

    def restart_cost(self, job: Job) -> float:  # noqa: ARG002
        return 0.0

    def locality_penalty(self, job: Job) -> float:  # noqa: ARG002
        return ASSUMED_PENALTY

    def metric(self, job: Job, now: float, since: float = -math.inf) -> float | None:  # noqa: ARG002
        return None
