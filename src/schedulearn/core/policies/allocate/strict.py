"""Head of the line blocks."""

from schedulearn.core.domain.job import Job
from schedulearn.core.policies.stages import Contest, Facts


class Strict:
    """Walk the order and give each job what it wants; the first that does not fit ends the walk.

    Where nobody is interrupted, who runs and has reached its target keeps what it has unless that job can have it.
    """

    elastic = False

    def allocate(self, contest: Contest) -> float | None:
        for job in contest.in_order():
            if not contest.give(job, job.workers or job.shape.workers.want):
                contest.refuse(job)
                contest.refuse_rest(behind=job)
                break
        if not contest.preemptive:
            for job in contest.running():
                contest.give(job, job.workers)  # once more for those who have it already
        return None

    def at_ease(self, job: Job, facts: Facts) -> int:
        return job.shape.workers.want
