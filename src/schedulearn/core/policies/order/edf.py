"""Earliest deadline first."""

import math

from schedulearn.core.domain.job import Job
from schedulearn.core.policies.stages import Facts, Key, KeyChanges, Order

_HAIR = 1e-3  # seconds: sums of floats may miss a deadline by a hair


class Edf(Order):
    """By deadline; jobs that can no longer make theirs go after those that can, jobs without one go last."""

    preemptive = True
    key_changes = KeyChanges.ALWAYS  # a deadline is lost by waiting

    def key(self, job: Job, now: float, facts: Facts) -> Key:
        if job.deadline is None:
            return (2, 0.0)
        remaining = facts.remaining(job, now)
        lost = now + remaining > job.deadline if remaining < 1e300 else now > job.deadline
        return (1 if lost else 0, job.deadline)

    def key_holds(self, job: Job, now: float, facts: Facts) -> float:
        """Once lost, it stays lost."""
        if job.deadline is None or self.key(job, now, facts)[0]:
            return math.inf
        remaining = facts.remaining(job, now)
        return job.deadline - (remaining if remaining < 1e300 else 0.0) - _HAIR
