"""Least attained service, in discrete queues (Tiresias 2D-LAS)."""

from collections.abc import Mapping, Sequence
from typing import Any

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.policies.stages import Facts, Key, Memory, Order

_DEMOTED = "las.demoted"  # running jobs that joined another queue since the last decision
_LAST = "las.last"  # numbers the places in the lists
_ALMOST = 1 - 1e-12  # a sum of products of floats may miss a threshold by a hair


class Las(Order):
    """Jobs that had little service so far go first; who has had `thresholds[q]` slot-seconds is demoted.

    Each queue is a list. A new, demoted or promoted job joins at its tail; after each decision the list is parted
    into those that run and those that wait, so that a pre-empted job heads the waiting and nobody is pre-empted
    without need. A job that waits `promote` times as long as it ran goes back to the first queue.
    """

    preemptive = True
    running_moves_forward = True
    keeps_state = True

    def __init__(self, thresholds: Sequence[float] = (3600.0,), promote: float | None = 8.0) -> None:
        self.thresholds = tuple(thresholds)
        self.promote = promote

    def key(self, job: Job, now: float, facts: Facts) -> Key:
        queue, part, place, _, _ = job.order_state
        return (queue, part, place)

    def queue_of(self, job: Job) -> int:
        return int(job.order_state[0])

    def joined(self, job: Job, now: float, memory: Memory) -> None:
        if job.order_state is None:
            part, place = (0, _next(memory)) if job.placements else _tail(memory)
            job.order_state = [0, part, place, 0.0, 0.0]
        elif job.order_state[1] == 0:  # it ran, and was not stopped by a decision: a failure, say
            job.order_state = [job.order_state[0], *_head(memory), *job.order_state[3:]]

    def decided(
        self, started: Sequence[Job], stopped: Sequence[Job], jobs: Mapping[JobId, Job], memory: Memory
    ) -> None:
        # One that was demoted at this very moment is at the tail of its list already, and stays there.
        for job in sorted(
            (j for j in stopped if j.order_state[1] == 0), key=lambda job: job.order_state[:3], reverse=True
        ):
            job.order_state = [job.order_state[0], *_head(memory), *job.order_state[3:]]
        still_running = [jobs[i] for i in memory.pop(_DEMOTED, ()) if i in jobs and jobs[i].placements]
        for job in (*still_running, *started):
            if job.placements:
                job.order_state = [job.order_state[0], 0, _next(memory), *job.order_state[3:]]

    def expires(self, job: Job, now: float) -> float | None:
        queue: int = job.order_state[0]
        attained, ran = float(job.order_state[3]), float(job.order_state[4])
        if job.attained.rate > 0:
            if queue >= len(self.thresholds):
                return None
            missing = self.thresholds[queue] - (job.attained.at(now) - attained)
            return now + max(0.0, missing) / job.attained.rate
        if self.promote is None or queue == 0:
            return None
        return job.queued_at + self.promote * (job.ran.at(now) - ran)

    def expired(self, job: Job, now: float, memory: Memory) -> bool:
        if job.order_state is None:
            return False
        queue, _, _, attained, ran = job.order_state
        if job.attained.rate > 0:
            return self._demote(job, queue, job.attained.at(now) - attained, memory)
        if self.promote is None or queue == 0 or job.placements:
            return False
        if now - job.queued_at < self.promote * (job.ran.at(now) - ran) * _ALMOST:
            return False
        job.order_state = [0, *_tail(memory), job.attained.at(now), job.ran.at(now)]
        return True

    def _demote(self, job: Job, queue: int, attained: float, memory: Memory) -> bool:
        target = queue
        while target < len(self.thresholds) and attained >= self.thresholds[target] * _ALMOST:
            target += 1
        if target == queue:
            return False
        job.order_state = [target, *_tail(memory), *job.order_state[3:]]
        memory.setdefault(_DEMOTED, []).append(job.id)
        return True


def _next(memory: Memory) -> int:
    memory[_LAST] = place = memory.get(_LAST, 0) + 1
    return int(place)


def _tail(memory: Memory) -> tuple[int, Any]:
    """Behind all that wait."""
    return 1, _next(memory)


def _head(memory: Memory) -> tuple[int, Any]:
    """Before all that wait."""
    return 1, -_next(memory)
