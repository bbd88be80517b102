"""Shortest remaining time first."""

from schedulearn.core.domain.job import Job
from schedulearn.core.policies.stages import Facts, Key, Order


class Srtf(Order):
    """By the time a job still needs; a shorter one takes the place of a longer one."""

    preemptive = True
    running_moves_forward = True

    def key(self, job: Job, now: float, facts: Facts) -> Key:
        return (facts.remaining(job, now),)
