"""Tiresias for elastic jobs: what they want by the order, then the rest to where it brings most."""

import heapq
from functools import lru_cache
from itertools import chain, islice

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.resources import EPSILON
from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.core.policies.stages import Allocate, Allocation, Facts, Key

_LATE = 1e-9


class ElasticTiresias(Allocate):
    """Give `want` where it fits; when many jobs wait, shrink those past the first queue; then give by gain per slot.

    Shrinking (compaction) sets in when more than `compact_above` jobs would get nothing. A job that has nothing is
    given its min at a gain of s(min) / min, any other one worker more at a gain of s(n+1) − s(n); nobody is given
    anything without a gain. Ties by the order, which compares the queue first.
    """

    elastic = True

    def __init__(self, compact_above: int = 10) -> None:
        self.compact_above = compact_above

    def allocate(self, allocation: Allocation) -> float | None:
        sharing = _Sharing(allocation)
        sharing.give_wants()
        many_wait = sharing.without > self.compact_above
        if many_wait:
            sharing.compact()
        sharing.give_by_gain()
        if many_wait:  # else one more waiting job, even one that gets nothing itself, might start a compaction
            sharing.refuse_rest()
        return None

    def enough(self, job: Job, facts: Facts) -> int:
        workers = job.shape.workers
        return facts.speedup(job).summit(workers.want, workers.max)


class _Sharing:
    """Who has how much so far in this decision."""

    def __init__(self, allocation: Allocation) -> None:
        self.without = allocation.waiting_count  # jobs that have nothing
        self._allocation = allocation
        self._sizes: dict[JobId, int] = {}
        self._given: list[Job] = []
        self._passed: dict[JobId, Job] = {}  # running jobs and heads of shapes that have nothing
        self._offers: list[tuple[float, Key, Job, int]] = []  # a heap of (−gain, rank, job, workers)
        self._grown: dict[JobId, Job] = {}
        self._growing = False  # do those who have something take part?
        self._left = 0.0
        self._heads_only = True

    def give_wants(self) -> None:
        allocation = self._allocation
        for job in allocation.secure():
            self._give(job, job.shape.workers.min)
        for job in chain(allocation.secure(), allocation.claimants()):
            if not self._give(job, job.shape.workers.want) and job.id not in self._sizes:
                self._passed[job.id] = job
                self.without += 1 if job.placements else 0

    def compact(self) -> None:
        for job in self._given:
            if self._allocation.order.queue_of(job) >= 1:
                self._give(job, job.shape.workers.min)

    def give_by_gain(self) -> None:
        """First those who start and gain more by it than anybody could by growing, then all others."""
        allocation = self._allocation
        self._left = allocation.left + EPSILON
        self._offers = [self._start(job) for job in self._without_anything()]
        heapq.heapify(self._offers)
        self._take_offers(above=max((_best_step(job, allocation) for job in self._given), default=0.0))
        if self._left <= 2 * EPSILON:
            return
        self._growing = True
        self._offers += [offer for job in self._given if (offer := self._one_more(job))]
        heapq.heapify(self._offers)
        self._take_offers(above=0.0)
        for job in self._grown.values():
            allocation.give(job, self._sizes[job.id])

    def _take_offers(self, above: float) -> None:
        while self._offers and -self._offers[0][0] > above:
            _, _, job, workers = heapq.heappop(self._offers)
            cost = (workers - self._sizes.get(job.id, 0)) * job.shape.slots
            if cost > self._left:
                continue  # what is left only gets less: it drops out
            if job.id in self._sizes:
                self._sizes[job.id] = workers
                self._grown[job.id] = job
            elif not self._begin(job, workers):
                continue
            self._left -= cost
            if self._growing and (offer := self._one_more(job)):
                heapq.heappush(self._offers, offer)
            elif not self._growing:
                above = max(above, _best_step(job, self._allocation))

    def refuse_rest(self) -> None:
        """Jobs of the same shape would fare no better, unless their own curves decide."""
        if self._heads_only:
            for job in self._passed.values():
                self._allocation.refuse(job)

    def _without_anything(self) -> list[Job]:
        """Those who are offered their min.

        Of the jobs of one shape the first goes before the others unless their curves differ, and at one worker no
        curve differs from another.
        """
        self._heads_only = all(job.shape.workers.min == 1 for job in self._passed.values())
        if self._heads_only:
            return list(self._passed.values())
        everybody = (
            *self._allocation.waiting(all_of_them=True),
            *(job for job in self._passed.values() if job.placements),
        )
        return [job for job in everybody if job.id not in self._sizes]

    def _begin(self, job: Job, workers: int) -> bool:
        """Give a job that has nothing its min; the next of its shape is offered the same."""
        if not self._give(job, workers):
            return False
        self._passed.pop(job.id, None)
        if self._heads_only:
            for other in islice(self._allocation.waiting(), 1):
                self._passed[other.id] = other
                heapq.heappush(self._offers, self._start(other))
        return True

    def _give(self, job: Job, workers: int) -> bool:
        if not self._allocation.give(job, workers):
            return False
        if job.id not in self._sizes:
            self._given.append(job)
            self.without -= 0 if job.placements else 1
        self._sizes[job.id] = workers
        return True

    def _start(self, job: Job) -> tuple[float, Key, Job, int]:
        allocation, least = self._allocation, job.shape.workers.min
        gain = _counted(job, allocation.facts.speedup(job)(least) / (least * job.shape.slots))
        return -gain, allocation.rank(job), job, least

    def _one_more(self, job: Job) -> tuple[float, Key, Job, int] | None:
        allocation, workers = self._allocation, self._sizes[job.id]
        speed = allocation.facts.speedup(job)
        gain = _counted(job, (speed(workers + 1) - speed(workers)) / job.shape.slots)
        if gain <= 0 or workers >= job.shape.workers.max:
            return None
        return -gain, allocation.rank(job), job, workers + 1


def _best_step(job: Job, allocation: Allocation) -> float:
    return _counted(job, _largest_gain(allocation.facts.speedup(job)) / job.shape.slots)


def _counted(job: Job, gain: float) -> float:
    """What a gain is worth: next to nothing for who has reached its target, so that all others come first."""
    return gain * _LATE if job.yields else gain


@lru_cache(maxsize=4096)
def _largest_gain(curve: SpeedUp) -> float:
    """Of one more worker, wherever on the curve."""
    return max((curve(n + 1) - curve(n) for n in range(1, curve.most)), default=0.0)
