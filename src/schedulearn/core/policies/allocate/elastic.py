"""Everybody gets the least, then the rest is shared out."""

from schedulearn.core.domain.job import Job
from schedulearn.core.domain.resources import EPSILON
from schedulearn.core.policies.stages import Allocate, Allocation, Facts


class Elastic(Allocate):
    """Give min by the order, past what does not fit; then hand the rest out one worker at a time, round the order.

    Jobs that have reached their target get more than min only of what the others leave.
    """

    elastic = True
    tries = "min"

    def allocate(self, allocation: Allocation) -> float | None:
        if allocation.sizes_are_fixed:
            give_least(allocation)
            return None
        given = allocation.secure()  # where nobody is interrupted, nobody who runs loses its least
        allocation.give_all([(job, job.shape.workers.min) for job in given])
        for job in allocation.claimants():
            if allocation.give(job, job.shape.workers.min):
                given.append(job)
            else:
                allocation.refuse(job)
        allocation.give_all(share_out([job for job in given if not job.yields], allocation))
        if late := [job for job in given if job.yields]:
            allocation.give_all(share_out(late, allocation))
        return None

    def enough(self, job: Job, facts: Facts) -> int:
        return job.shape.workers.max


def give_least(allocation: Allocation) -> None:
    """By the order, past what does not fit: all there is to give where no job could have more."""
    for job in allocation.candidates():
        if not allocation.give(job, job.shape.workers.min):
            allocation.refuse(job)


def share_out(jobs: list[Job], allocation: Allocation) -> list[tuple[Job, int]]:
    """How many workers each of these, all at min now, has after the rest was handed out round by round."""
    sizes = {job.shape.slots for job in jobs}
    if len(sizes) != 1:
        return _by_rounds(jobs, allocation)
    # All workers cost the same: count how many still take part in each round instead of walking it.
    left = int(allocation.left / sizes.pop() + EPSILON)
    headroom = sorted(job.shape.workers.max - job.shape.workers.min for job in jobs)
    taking_part, level = len(headroom), 0
    for i, room in enumerate(headroom):
        taking_part = len(headroom) - i
        rounds = min(room - level, left // taking_part)
        level += rounds
        left -= rounds * taking_part
        if level < room:
            break
    else:
        left = 0
    result = []
    for job in jobs:
        room = job.shape.workers.max - job.shape.workers.min
        extra = min(room, level)
        if room > level and left > 0:
            extra, left = extra + 1, left - 1
        result.append((job, job.shape.workers.min + extra))
    return result


def _by_rounds(jobs: list[Job], allocation: Allocation) -> list[tuple[Job, int]]:
    result = {job.id: job.shape.workers.min for job in jobs}
    left, active = allocation.left, list(jobs)
    while active:
        still = []
        for job in active:
            cost = job.shape.slots
            if result[job.id] < job.shape.workers.max and cost <= left + EPSILON:
                result[job.id] += 1
                left -= cost
                still.append(job)
        active = still
    return [(job, result[job.id]) for job in jobs]
