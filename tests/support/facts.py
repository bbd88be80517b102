"""Facts for tests in which nothing is known of any job."""

import math

from schedulearn.core.domain.job import Job
from schedulearn.core.domain.speedup import SpeedUp, assumed_speedup
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.core.policies.stages import Known


class AssumedFacts:
    """No duration is known; every job scales as jobs usually do. Implements `policies.stages.Facts`."""

    steady = True

    def remaining(self, job: Job, now: float) -> float:
        return math.inf

    def estimate(self, job: Job, now: float) -> Estimate | None:
        return None

    def duration(self, job: Job) -> float:
        return math.inf

    def speedup(self, job: Job) -> SpeedUp:
        return assumed_speedup(job.shape.workers.max)

    def known(self, job: Job, now: float) -> Known:
        return Known(False, False, False, False)

    def measured_up_to(self, job: Job) -> int:
        return 0

    def restart_cost(self, job: Job) -> float:
        return 0.0

    def locality_penalty(self, job: Job) -> float:
        return 0.1

    def metric(self, job: Job, now: float, since: float = -math.inf) -> float | None:
        return None
