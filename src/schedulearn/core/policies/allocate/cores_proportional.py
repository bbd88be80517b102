"""Everybody in the queue gets the same part of what it asked for."""

import math

from schedulearn.core.policies.allocate.cores import Admission, asked, grow, grow_the_running
from schedulearn.core.policies.stages import Allocate, Allocation


class CoresProportional(Allocate):
    """What all who wait asked for, over what is free, is the factor by which each gets less, but at least one."""

    elastic = True
    counts_cores = True

    def __init__(self, memory_below: float = 0.8) -> None:
        self._memory_below = memory_below

    def allocate(self, allocation: Allocation) -> float | None:
        grow_the_running(allocation)
        admission = Admission(allocation, self._memory_below)
        wanted = sum(asked(allocation, job) * allocation.ask(job).cost for job in allocation.waiting(all_of_them=True))
        factor = max(1.0, wanted / allocation.left) if allocation.left > 0 else math.inf
        for job in allocation.claimants():
            if job.placements:
                grow(allocation, job)
                continue
            least = allocation.ask(job).min
            cores = min(max(least, int(asked(allocation, job) / factor)), allocation.room(job))
            if cores >= least and admission.open_to(job) and allocation.give(job, cores):
                admission.let_in(job, cores)
            else:
                allocation.refuse(job)
        return None
