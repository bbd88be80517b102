"""Backfilling, with a guard against starvation."""

import math

from schedulearn.core.domain.job import Job
from schedulearn.core.policies.stages import Allocate, Allocation, Facts, HeldBehind


class Rigid(Allocate):
    """Walk the order and give each job what it wants, going on past what does not fit.

    A job that has waited longer than `starvation_guard` seconds reserves the nodes it needs, so that smaller
    jobs behind it no longer take what is freed for it. One reservation at a time, as in EASY backfilling.

    Under an order that pre-empts, nothing is reserved: whoever runs behind such a job is interrupted for it as soon as
    that helps. But while it waits for jobs that cannot be interrupted, no more such jobs are started behind it.
    """

    tries = "want"
    regardless = True

    def __init__(self, starvation_guard: float = 3600.0) -> None:
        self.starvation_guard = starvation_guard

    def allocate(self, allocation: Allocation) -> float | None:
        preemptive = allocation.preemptive
        fixed = allocation.fixed if preemptive else 0.0
        starving: Job | None = None
        wake = math.inf
        for job in allocation.candidates():
            if preemptive and starving and _stays(allocation, job):
                allocation.refuse(job, HeldBehind(starving.id))
                continue
            if allocation.give(job, job.shape.workers.want):
                continue
            allocation.refuse(job)
            if starving or (preemptive and not (fixed and _waits_for_fixed(allocation, job))):
                continue
            starves_at = job.queued_at + self.starvation_guard
            if starves_at <= allocation.now:
                starving = job
                if not preemptive:
                    allocation.reserve(job)
            elif not preemptive:  # an order that pre-empts need not be asked: it only starts less from then on
                wake = min(wake, starves_at)
        if not preemptive:
            wake = min(wake, allocation.passed_since(starving) + self.starvation_guard)
        return wake if math.isfinite(wake) else None

    def enough(self, job: Job, facts: Facts) -> int:
        return job.shape.workers.want


def _stays(allocation: Allocation, job: Job) -> bool:
    """Once it runs, can it not be interrupted any more?"""
    return not (job.is_preemptible or allocation.order.suspends)


def _waits_for_fixed(allocation: Allocation, job: Job) -> bool:
    """Would it fit if those who cannot be interrupted were gone? Else it waits for those before it in the order."""
    return job.shape.workers.want * job.shape.slots <= allocation.left + allocation.fixed
