"""All the cores it asked for, or none."""

from schedulearn.core.policies.allocate.cores import Admission, asked
from schedulearn.core.policies.stages import Contest


class CoresStrict:
    """A container runs as soon as all the cores that it asked for are free. Smaller ones may pass it."""

    elastic = False
    counts_cores = True

    def __init__(self, memory_below: float = 0.8) -> None:
        self._memory_below = memory_below

    def allocate(self, contest: Contest) -> float | None:
        admission = Admission(contest, self._memory_below)
        for job in contest.in_order():
            if job.spots:
                contest.give(job, contest.has(job))
            elif admission.open_to(job) and contest.give(job, asked(contest, job)):
                admission.let_in(job, asked(contest, job))
            else:
                contest.refuse(job)
        return None
