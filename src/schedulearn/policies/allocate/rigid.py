"""Backfilling, with a guard against starvation."""

import math

from schedulearn.policies.stages import DoesNotFit, Room, Walk


class Rigid:
    """Walk the order and give each job what it wants, going on past what does not fit.

    A job that has waited longer than `starvation_guard` seconds reserves the nodes it needs, so that smaller
    jobs behind it no longer take what is freed for it. One reservation at a time, as in EASY backfilling.
    """

    def __init__(self, starvation_guard: float = 3600.0) -> None:
        self.starvation_guard = starvation_guard

    def allocate(self, walk: Walk, room: Room, now: float) -> float | None:
        reserved = False
        wake = math.inf
        for job in walk:
            if room.grant(job, job.shape.workers.want):
                continue
            room.refuse(job, DoesNotFit())
            walk.close(job.shape)
            starves_at = job.queued_at + self.starvation_guard
            if starves_at > now:
                wake = min(wake, starves_at)
            elif not reserved:
                room.reserve(job, job.shape.workers.want)
                reserved = True
        return wake if math.isfinite(wake) else None
