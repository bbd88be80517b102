"""Shortest job first."""

from schedulearn.core.domain.job import Job
from schedulearn.core.policies.stages import Facts, Key, Order


class Srjf(Order):
    """By the work that was estimated at submission; nobody is interrupted."""

    def key(self, job: Job, now: float, facts: Facts) -> Key:
        return (facts.duration(job),)
