"""What the three ways to give whole cores of one machine to containers have in common."""

from schedulearn.core.domain.job import Job
from schedulearn.core.domain.resources import MEMORY
from schedulearn.core.policies.stages import Contest


class Admission:
    """New containers are let in only while less than this part of the memory is leased."""

    def __init__(self, contest: Contest, memory_below: float) -> None:
        self._contest, self._below = contest, memory_below
        self._all, free = contest.amounts(MEMORY)
        self._leased = self._all - free

    def open_to(self, job: Job) -> bool:
        """One that is suspended there has its memory already."""
        return bool(job.pinned) or not self._all or self._leased < self._below * self._all

    def let_in(self, job: Job, cores: int) -> None:
        self._leased += self._contest.need(job, cores)[MEMORY]


def asked(contest: Contest, job: Job) -> int:
    """The cores that it asked for, each counted as a worker."""
    return contest.size(job).want


def grow_the_running(contest: Contest) -> None:
    """Cores that were freed go first to who runs with less than it asked for, the oldest first; nobody loses any.

    Who has reached its target comes after those that wait, in the order's order.
    """
    running = sorted([job for job in contest.running() if not job.yields], key=lambda job: job.id)
    contest.give_all([(job, contest.has(job)) for job in running])
    for job in running:
        grow(contest, job)


def grow(contest: Contest, job: Job) -> None:
    """Give it what is free of the cores that it still lacks."""
    has = contest.has(job)
    more = min(asked(contest, job) - has, contest.room(job))
    if more > 0:
        contest.give(job, has + more)
