"""What is free, as long as it is more than one core."""

from schedulearn.core.policies.allocate.cores import Admission, asked, grow, grow_the_running
from schedulearn.core.policies.stages import Contest

_WORTH_IT = 2  # cores
_FORGIVEN = 1e-9


class CoresAttend:
    """A container runs as soon as two cores are free, with what it asked for or what there is. It grows later.

    An empty machine lets one in whatever it has, or a single core would never do anything.
    """

    elastic = True
    counts_cores = True

    def __init__(self, memory_below: float = 0.8) -> None:
        self._memory_below = memory_below

    def allocate(self, contest: Contest) -> float | None:
        grow_the_running(contest)
        admission = Admission(contest, self._memory_below)
        for job in contest.claimants():
            if job.spots:
                grow(contest, job)
                continue
            free = contest.room(job)
            is_empty = contest.left + _FORGIVEN >= contest.slots + contest.fixed
            enough = free * contest.cost(job) + _FORGIVEN >= _WORTH_IT or is_empty
            cores = min(asked(contest, job), free)
            if enough and admission.open_to(job) and cores >= contest.size(job).min and contest.give(job, cores):
                admission.let_in(job, cores)
            else:
                contest.refuse(job)
        return None
