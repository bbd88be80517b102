"""What is free, as long as it is more than one core."""

from schedulearn.core.domain.resources import EPSILON
from schedulearn.core.policies.allocate.cores import Admission, asked, grow, grow_the_running
from schedulearn.core.policies.stages import Allocate, Allocation

_WORTH_IT = 2  # cores


class CoresAttend(Allocate):
    """A container runs as soon as two cores are free, with what it asked for or what there is. It grows later.

    An empty machine lets one in whatever it has, or a single core would never do anything.
    """

    elastic = True
    counts_cores = True

    def __init__(self, memory_below: float = 0.8) -> None:
        self._memory_below = memory_below

    def allocate(self, allocation: Allocation) -> float | None:
        grow_the_running(allocation)
        admission = Admission(allocation, self._memory_below)
        for job in allocation.claimants():
            if job.placements:
                grow(allocation, job)
                continue
            free = allocation.room(job)
            is_empty = allocation.left + EPSILON >= allocation.slots + allocation.fixed
            enough = free * allocation.ask(job).cost + EPSILON >= _WORTH_IT or is_empty
            cores = min(asked(allocation, job), free)
            if enough and admission.open_to(job) and cores >= allocation.ask(job).min and allocation.give(job, cores):
                admission.let_in(job, cores)
            else:
                allocation.refuse(job)
        return None
