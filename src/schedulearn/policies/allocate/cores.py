"""What the three ways to give whole cores of one machine to containers have in common."""

import math

from schedulearn.domain.job import Job
from schedulearn.domain.resources import MEMORY
from schedulearn.policies.stages import Contest

_FORGIVEN = 1e-9


class Admission:
    """New containers are let in only while less than this part of the memory is leased."""

    def __init__(self, contest: Contest, memory_below: float) -> None:
        self._below = memory_below
        self._all, free = contest.amounts(MEMORY)
        self._leased = self._all - free

    def open_to(self, job: Job) -> bool:
        """One that is suspended there has its memory already."""
        return bool(job.pinned) or not self._all or self._leased < self._below * self._all

    def let_in(self, job: Job, workers: int) -> None:
        self._leased += job.shape.per_worker[MEMORY] * workers


def asked(job: Job) -> int:
    """The cores that it asked for, each counted as a worker."""
    return job.shape.workers.want


def whole_cores(contest: Contest, job: Job) -> int:
    """How many more of what this job takes are left."""
    return math.floor(contest.left / contest.cost(job) + _FORGIVEN)


def grow_the_running(contest: Contest) -> None:
    """Cores that were freed go first to who runs with less than it asked for, the oldest first; nobody loses any.

    Who has reached its target is not among them: see `keep_what_is_left`.
    """
    running = sorted([job for job in contest.running() if not job.yields], key=lambda job: job.id)
    contest.give_all([(job, job.workers) for job in running])
    for job in running:
        more = min(asked(job) - job.workers, whole_cores(contest, job))
        if more > 0:
            contest.give(job, job.workers + more)


def keep_what_is_left(contest: Contest, job: Job) -> None:
    """One that runs and has reached its target has the cores that others leave; none, if they are too few for it."""
    cores = min(asked(job), whole_cores(contest, job))
    if job.yields and cores >= job.shape.workers.min:
        contest.give(job, cores)
