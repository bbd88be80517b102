"""Shortest remaining time with the fewest workers first."""

from schedulearn.core.domain.job import Job
from schedulearn.core.policies.stages import Facts, Key, Order


class SrtfMin(Order):
    """By the time a job would still need with its least number of workers: what AFS starts jobs by."""

    preemptive = True
    running_moves_forward = True

    def key(self, job: Job, now: float, facts: Facts) -> Key:
        speed, workers = facts.speedup(job), job.shape.workers
        return (facts.remaining(job, now) * speed(workers.want) / speed(workers.min),)
