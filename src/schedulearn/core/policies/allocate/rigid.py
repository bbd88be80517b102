"""Backfilling, with a guard against starvation."""

import math

from schedulearn.core.domain.job import Job
from schedulearn.core.domain.spec import Workers
from schedulearn.core.policies.stages import Contest, Facts, HeldBehind


class Rigid:
    """Walk the order and give each job what it wants, going on past what does not fit.

    A job that has waited longer than `starvation_guard` seconds reserves the nodes it needs, so that smaller
    jobs behind it no longer take what is freed for it. One reservation at a time, as in EASY backfilling.

    Under an order that pre-empts, nothing is reserved: whoever runs behind such a job is interrupted for it as soon as
    that helps. But while it waits for jobs that cannot be interrupted, no more such jobs are started behind it.
    """

    elastic = False

    def __init__(self, starvation_guard: float = 3600.0) -> None:
        self.starvation_guard = starvation_guard

    def allocate(self, contest: Contest) -> float | None:
        preemptive = contest.preemptive
        starving: Job | None = None
        wake = math.inf
        for job in contest.contenders():
            if preemptive and starving and contest.stays(job):
                contest.refuse(job, HeldBehind(starving.id))
                continue
            if contest.give(job, job.shape.workers.want):
                continue
            contest.refuse(job)
            if starving or (preemptive and not _waits_for_fixed(contest, job)):
                continue
            starves_at = job.queued_at + self.starvation_guard
            if starves_at <= contest.now:
                starving = job
                if not preemptive:
                    contest.reserve(job)
            elif not preemptive:  # an order that pre-empts need not be asked: it only starts less from then on
                wake = min(wake, starves_at)
        if not preemptive:
            wake = min(wake, contest.passed_since(starving) + self.starvation_guard)
        return wake if math.isfinite(wake) else None

    def at_ease(self, job: Job, facts: Facts) -> int:
        return job.shape.workers.want

    def tries(self, workers: Workers) -> int:
        return workers.want


def _waits_for_fixed(contest: Contest, job: Job) -> bool:
    """Would it fit if those who cannot be interrupted were gone? Else it waits for those before it in the order."""
    fixed = contest.fixed
    return fixed > 0 and job.shape.workers.want * contest.cost(job) <= contest.left + fixed
