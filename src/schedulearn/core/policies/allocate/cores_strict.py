"""All the cores it asked for, or none."""

from itertools import chain

from schedulearn.core.policies.allocate.cores import Admission, asked
from schedulearn.core.policies.stages import Allocate, Allocation


class CoresStrict(Allocate):
    """A container runs as soon as all the cores that it asked for are free. Smaller ones may pass it."""

    counts_cores = True

    def __init__(self, memory_below: float = 0.8) -> None:
        self._memory_below = memory_below

    def allocate(self, allocation: Allocation) -> float | None:
        admission = Admission(allocation, self._memory_below)
        for job in chain(allocation.secure(), allocation.claimants()):
            if job.placements:
                allocation.give(job, allocation.ask(job).has)
            elif admission.open_to(job) and allocation.give(job, asked(allocation, job)):
                admission.let_in(job, asked(allocation, job))
            else:
                allocation.refuse(job)
        return None
