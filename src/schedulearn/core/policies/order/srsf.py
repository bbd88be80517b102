"""Shortest remaining service first."""

from schedulearn.core.domain.job import Job
from schedulearn.core.policies.stages import Facts, Key, Order


class Srsf(Order):
    """By remaining time × GPUs, so that a wide job counts for as much as it takes."""

    preemptive = True
    running_moves_forward = True

    def key(self, job: Job, now: float, facts: Facts) -> Key:
        shape = job.shape
        return (facts.remaining(job, now) * shape.workers.want * shape.slots,)
