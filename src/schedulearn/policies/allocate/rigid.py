"""Backfilling, with a guard against starvation."""

import math

from schedulearn.domain.job import Job
from schedulearn.policies.stages import Contest, Facts


class Rigid:
    """Walk the order and give each job what it wants, going on past what does not fit.

    A job that has waited longer than `starvation_guard` seconds reserves the nodes it needs, so that smaller
    jobs behind it no longer take what is freed for it. One reservation at a time, as in EASY backfilling; none
    under an order that pre-empts.
    """

    elastic = False

    def __init__(self, starvation_guard: float = 3600.0) -> None:
        self.starvation_guard = starvation_guard

    def allocate(self, contest: Contest) -> float | None:
        reserved = False
        wake = math.inf
        for job in contest.contenders():
            if contest.give(job, len(job.spots) or job.shape.workers.want):
                continue
            contest.refuse(job)
            if contest.preemptive:
                continue  # who goes first is the order's business then, and it interrupts who must wait
            starves_at = job.queued_at + self.starvation_guard
            if starves_at > contest.now:
                wake = min(wake, starves_at)
            elif not reserved:
                contest.reserve(job)
                reserved = True
        return wake if math.isfinite(wake) else None

    def at_ease(self, job: Job, facts: Facts) -> int:
        return job.shape.workers.want
