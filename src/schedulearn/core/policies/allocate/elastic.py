"""Everybody gets the least, then the rest is shared out."""

from schedulearn.core.domain.job import Job
from schedulearn.core.domain.spec import Workers
from schedulearn.core.policies.stages import Contest, Facts


class Elastic:
    """Give min by the order, past what does not fit; then hand the rest out one worker at a time, round the order.

    Jobs that have reached their target get more than min only of what the others leave.
    """

    elastic = True

    def allocate(self, contest: Contest) -> float | None:
        given = contest.secure()  # where nobody is interrupted, nobody who runs loses its least
        contest.give_all([(job, job.shape.workers.min) for job in given])
        for job in contest.claimants():
            if contest.give(job, job.shape.workers.min):
                given.append(job)
            else:
                contest.refuse(job)
        contest.give_all(share_out([job for job in given if not job.yields], contest))
        if late := [job for job in given if job.yields]:
            contest.give_all(share_out(late, contest))
        return None

    def at_ease(self, job: Job, facts: Facts) -> int:
        return job.shape.workers.max

    def tries(self, workers: Workers) -> int:
        return workers.min


def share_out(jobs: list[Job], contest: Contest) -> list[tuple[Job, int]]:
    """How many workers each of these, all at min now, has after the rest was handed out round by round."""
    sizes = {contest.cost(job) for job in jobs}
    if len(sizes) != 1:
        return _by_rounds(jobs, contest)
    # All workers cost the same: count how many still take part in each round instead of walking it.
    left = int(contest.left / sizes.pop() + 1e-9)
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


def _by_rounds(jobs: list[Job], contest: Contest) -> list[tuple[Job, int]]:
    result = {job.id: job.shape.workers.min for job in jobs}
    left, active = contest.left, list(jobs)
    while active:
        still = []
        for job in active:
            cost = contest.cost(job)
            if result[job.id] < job.shape.workers.max and cost <= left + 1e-9:
                result[job.id] += 1
                left -= cost
                still.append(job)
        active = still
    return [(job, result[job.id]) for job in jobs]
