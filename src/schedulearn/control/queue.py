"""The waiting jobs: one heap for each shape, so that thousands of waiting jobs are a few comparisons."""

import heapq
from collections.abc import Iterable, Iterator

from schedulearn.domain.ids import JobId
from schedulearn.domain.job import Job
from schedulearn.domain.shape import Shape
from schedulearn.policies.stages import Key, KeyChanges, Order

Entry = tuple[Key, JobId, int]  # a key ends in the serial number; the last number tells a job's old entry from its new


class Queue:
    """Waiting jobs that may be started, in the order of a policy."""

    def __init__(self, order: Order, jobs: Iterable[Job] = (), now: float = 0.0) -> None:
        self.order = order
        self._jobs: dict[JobId, Job] = {}
        self._entries: dict[JobId, Entry] = {}
        self._heaps: dict[Shape, list[Entry]] = {}
        self._added = 0
        for job in jobs:
            self.add(job, now)

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, job: JobId) -> bool:
        return job in self._jobs

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs.values())

    def add(self, job: Job, now: float) -> None:
        """Add it, or give it its new key."""
        self._added += 1
        entry = (self.key(job, now), job.id, self._added)
        self._jobs[job.id] = job
        self._entries[job.id] = entry
        heapq.heappush(self._heaps.setdefault(job.shape, []), entry)

    def remove(self, job: JobId) -> None:
        # The heap's own entry is dropped when it comes to the top.
        self._jobs.pop(job, None)
        self._entries.pop(job, None)

    def copy(self) -> "Queue":
        """The same jobs with the same keys, to change at will."""
        twin = Queue(self.order)
        twin._jobs, twin._entries, twin._added = self._jobs.copy(), self._entries.copy(), self._added
        twin._heaps = {shape: heap.copy() for shape, heap in self._heaps.items()}
        return twin

    def walk(self, now: float) -> "QueueWalk":
        if self.order.key_changes is KeyChanges.ALWAYS:
            self._rekey(now)
        return QueueWalk(self)

    def position(self, job: Job) -> int:
        """1 for the first. Counted when asked: nobody needs all positions at once."""
        mine = self._entries[job.id]
        return 1 + sum(1 for entry in self._entries.values() if entry < mine)

    def key(self, job: Job, now: float) -> Key:
        return (-job.priority, *self.order.key(job, now), job.id)

    def shapes(self) -> list[Shape]:
        return list(self._heaps)

    def head(self, shape: Shape) -> Entry | None:
        """The first live entry of a shape."""
        heap = self._heaps.get(shape, [])
        while heap and self._entries.get(heap[0][1]) != heap[0]:
            heapq.heappop(heap)
        if not heap:
            self._heaps.pop(shape, None)
            return None
        return heap[0]

    def pop(self, shape: Shape) -> None:
        heapq.heappop(self._heaps[shape])

    def push_back(self, job: Job) -> None:
        heapq.heappush(self._heaps.setdefault(job.shape, []), self._entries[job.id])

    def job(self, job: JobId) -> Job:
        return self._jobs[job]

    def _rekey(self, now: float) -> None:
        jobs = list(self._jobs.values())
        self._heaps.clear()
        for job in jobs:
            self.add(job, now)


class QueueWalk:
    """One pass over the queue. What it yields counts as taken unless its shape is closed; `end` undoes all."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._heads: list[tuple[Entry, Shape]] = []
        self._taken: list[Job] = []
        self._current: Job | None = None
        for shape in queue.shapes():
            self._open(shape)

    def __iter__(self) -> "QueueWalk":
        return self

    def __next__(self) -> Job:
        self._take_current()
        if not self._heads:
            raise StopIteration
        entry, _ = heapq.heappop(self._heads)
        self._current = self._queue.job(entry[1])
        return self._current

    def close(self, shape: Shape) -> None:
        """The job just yielded gets nothing: it stays at the head, and its shape is out of this walk."""
        if self._current and self._current.shape == shape:
            self._current = None

    def rest(self) -> list[Job]:
        return [self._queue.job(entry[1]) for entry, _ in self._heads]

    def end(self) -> None:
        """Put back what was taken: a walk only looks."""
        self._take_current()
        for job in self._taken:
            self._queue.push_back(job)
        self._taken.clear()

    def _take_current(self) -> None:
        if job := self._current:
            self._current = None
            self._taken.append(job)
            self._queue.pop(job.shape)
            self._open(job.shape)

    def _open(self, shape: Shape) -> None:
        if entry := self._queue.head(shape):
            heapq.heappush(self._heads, (entry, shape))
