"""Everybody in the queue gets the same part of what it asked for."""

import math

from schedulearn.core.policies.allocate.cores import Admission, asked, grow, grow_the_running
from schedulearn.core.policies.stages import Contest


class CoresProportional:
    """What all who wait asked for, over what is free, is the factor by which each gets less, but at least one."""

    elastic = True
    counts_cores = True

    def __init__(self, memory_below: float = 0.8) -> None:
        self._memory_below = memory_below

    def allocate(self, contest: Contest) -> float | None:
        grow_the_running(contest)
        admission = Admission(contest, self._memory_below)
        wanted = sum(asked(contest, job) * contest.cost(job) for job in contest.all_waiting())
        factor = max(1.0, wanted / contest.left) if contest.left > 0 else math.inf
        for job in contest.claimants():
            if job.spots:
                grow(contest, job)
                continue
            least = contest.size(job).min
            cores = min(max(least, int(asked(contest, job) / factor)), contest.room(job))
            if cores >= least and admission.open_to(job) and contest.give(job, cores):
                admission.let_in(job, cores)
            else:
                contest.refuse(job)
        return None
