"""Who of the running jobs would be the first to go."""

import heapq
from collections.abc import Iterator, Mapping

from schedulearn.domain.ids import JobId
from schedulearn.domain.job import Job
from schedulearn.policies.stages import Facts, Key, Order


class Runners:
    """Running jobs from the back of the order, without looking at those further to the front.

    Where a running job only moves forward in the order, an earlier key says how far back it can be at most. So a heap
    of such keys, renewed only where they matter, gives the last ones. Under other orders all keys are made anew.
    """

    def __init__(self, order: Order, facts: Facts) -> None:
        self._order, self._facts = order, facts
        self._attempts: dict[JobId, int] = {}  # the attempt in which the key of a job was made
        self._heap: list[tuple[Key, int, Job]] = []  # (key with its signs turned, attempt, job)

    def last_first(self, running: Mapping[JobId, Job], now: float) -> Iterator[tuple[Key, Job]]:
        if not (self._order.running_moves_forward and self._facts.steady):
            yield from sorted(((self._key(job, now), job) for job in running.values()), reverse=True)
            return
        self._tidy(running)
        # Work that was lost moves a job back. That takes a stop, and ends in another attempt.
        known = self._attempts
        for job in [job for number, job in running.items() if known.get(number) != job.attempt]:
            self._push(job, self._key(job, now))
        seen: list[tuple[Key, Job]] = []
        try:
            while self._heap:
                _, attempt, job = heapq.heappop(self._heap)
                if job.id not in running or known.get(job.id) != attempt:
                    self._forget(job, attempt)
                    continue
                key = self._key(job, now)
                if self._heap and _turned(key) > self._heap[0][0]:
                    self._push(job, key)
                    continue
                seen.append((key, job))
                yield key, job
        finally:
            for key, job in seen:
                self._push(job, key)

    def _key(self, job: Job, now: float) -> Key:
        return (-job.priority, *self._order.key(job, now, self._facts), job.id)

    def _push(self, job: Job, key: Key) -> None:
        self._attempts[job.id] = job.attempt
        heapq.heappush(self._heap, (_turned(key), job.attempt, job))

    def _tidy(self, running: Mapping[JobId, Job]) -> None:
        """Entries of jobs that have left are dropped when they come to the top; here if they become too many."""
        if len(self._heap) > 1000 + 4 * len(running):
            self._heap.clear()
            self._attempts.clear()

    def _forget(self, job: Job, attempt: int) -> None:
        if self._attempts.get(job.id) == attempt:
            del self._attempts[job.id]


def _turned(key: Key) -> Key:
    return tuple([-part for part in key])
