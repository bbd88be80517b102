"""What the three ways to give whole cores of one machine to containers have in common."""

from schedulearn.core.domain.job import Job
from schedulearn.core.domain.resources import MEMORY
from schedulearn.core.policies.stages import Allocation


class Admission:
    """New containers are let in only while less than this part of the memory is leased."""

    def __init__(self, allocation: Allocation, memory_below: float) -> None:
        self._allocation, self._below = allocation, memory_below
        self._all, free = allocation.nodes.amounts(MEMORY)
        self._leased = self._all - free

    def open_to(self, job: Job) -> bool:
        """One that is suspended there has its memory already."""
        return bool(job.suspended_at) or not self._all or self._leased < self._below * self._all

    def let_in(self, job: Job, cores: int) -> None:
        is_one_container = job.shape.least_cores > 0 and not job.suspended_at
        self._leased += job.shape.per_worker[MEMORY] * (1 if is_one_container else cores)


def asked(allocation: Allocation, job: Job) -> int:
    """The cores that it asked for, each counted as a worker."""
    return allocation.ask(job).want


def grow_the_running(allocation: Allocation) -> None:
    """Cores that were freed go first to who runs with less than it asked for, the oldest first; nobody loses any.

    Who has reached its target comes after those that wait, in the order's order.
    """
    running = sorted([job for job in allocation.running.values() if not job.yields], key=lambda job: job.id)
    allocation.give_all([(job, allocation.ask(job).has) for job in running])
    for job in running:
        grow(allocation, job)


def grow(allocation: Allocation, job: Job) -> None:
    """Give it what is free of the cores that it still lacks."""
    has = allocation.ask(job).has
    more = min(asked(allocation, job) - has, allocation.room(job))
    if more > 0:
        allocation.give(job, has + more)
