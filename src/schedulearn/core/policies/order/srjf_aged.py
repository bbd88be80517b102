"""Shortest job first, and nobody waits for ever."""

from schedulearn.core.domain.job import Job
from schedulearn.core.policies.stages import Facts, Key, Order

_UNKNOWN = 3600.0  # seconds that a job is taken to last of which nothing at all is known


class SrjfAged(Order):
    """As if each job had come `patience` times its own estimated duration later: a short one passes longer ones, but
    only those that have not waited that long already. Nobody is interrupted.
    """

    def __init__(self, patience: float = 10.0) -> None:
        self._patience = patience

    def key(self, job: Job, now: float, facts: Facts) -> Key:
        duration = facts.duration(job)
        return (job.submitted_at + self._patience * (duration if duration < float("inf") else _UNKNOWN),)
