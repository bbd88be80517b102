"""Head of the line blocks."""

from itertools import chain

from schedulearn.core.domain.job import Job
from schedulearn.core.policies.stages import Allocate, Allocation, Facts


class Strict(Allocate):
    """Walk the order and give each job what it wants; the first that does not fit ends the walk.

    Where nobody is interrupted, who runs and has reached its target keeps what it has unless that job can have it.
    """

    def allocate(self, allocation: Allocation) -> float | None:
        for job in chain(allocation.secure(), allocation.claimants()):
            if not allocation.give(job, job.workers or job.shape.workers.want):
                allocation.refuse(job, rest=True)
                break
        if not allocation.preemptive:
            for job in allocation.running.in_order():
                allocation.give(job, job.workers)  # once more for those who have it already
        return None

    def enough(self, job: Job, facts: Facts) -> int:
        return job.shape.workers.want
