"""The waiting jobs: one heap for each shape, so that thousands of waiting jobs are a few comparisons."""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator

from schedulearn.control.runners import rank
from schedulearn.domain.ids import JobId
from schedulearn.domain.job import Job
from schedulearn.domain.shape import Shape
from schedulearn.policies.stages import Facts, Key, KeyChanges, Order

Entry = tuple[Key, int, Job]  # a key ends in the serial number; the number tells a job's old entries from its new one


class Queue:
    """Waiting jobs that may be started, in the order of a policy."""

    def __init__(self, order: Order, facts: Facts, jobs: Iterable[Job] = (), now: float = 0.0) -> None:
        self.order, self.facts = order, facts
        self.demand: dict[str, float] = defaultdict(float)  # slots of each pool that all of them want together
        # By pool, those who can only go on where they are:
        self.suspended: dict[str, dict[JobId, Job]] = defaultdict(dict)
        self._counts: dict[str, int] = defaultdict(int)  # by pool
        self._entries: dict[JobId, Entry] = {}
        self._heaps: dict[str, dict[Shape, list[Entry]]] = defaultdict(dict)  # by pool and shape
        self._added = 0
        self._generation = order.generation
        for job in jobs:
            self.add(job, now)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, job: JobId) -> bool:
        return job in self._entries

    def __iter__(self) -> Iterator[Job]:
        return (entry[2] for entry in self._entries.values())

    def count(self, pool: str) -> int:
        return self._counts[pool]

    def add(self, job: Job, now: float) -> None:
        """Add it, or give it its new key."""
        shape = job.shape
        if job.id not in self._entries:
            self.demand[shape.pool] += shape.workers.want * shape.slots
            self._counts[shape.pool] += 1
            if job.pinned:
                self.suspended[shape.pool][job.id] = job
        self._added += 1
        entry = (rank(job, self.order, self.facts, now), self._added, job)
        self._entries[job.id] = entry
        heaps = self._heaps[shape.pool]
        if shape in heaps:
            heapq.heappush(heaps[shape], entry)
        else:
            heaps[shape] = [entry]

    def remove(self, job: JobId) -> None:
        # The heap's own entry is dropped when it comes to the top.
        entry = self._entries.pop(job, None)
        if entry:
            shape = entry[2].shape
            self.demand[shape.pool] -= shape.workers.want * shape.slots
            self._counts[shape.pool] -= 1
            self.suspended[shape.pool].pop(job, None)
            if not self._entries:
                self._heaps.clear()

    def is_head(self, job: Job) -> bool:
        entry = self.head(job.shape)
        return entry is not None and entry[2] is job

    def position(self, job: Job) -> int:
        """1 for the first. Counted when asked: nobody needs all positions at once."""
        mine = self._entries[job.id]
        return 1 + sum(1 for entry in self._entries.values() if entry < mine)

    def first(self, count: int) -> list[Job]:
        """The first of all pools, in their order."""
        return [job for _, _, job in heapq.nsmallest(count, self._entries.values())]

    def shapes(self, pool: str) -> list[Shape]:
        return list(self._heaps[pool])

    def head(self, shape: Shape) -> Entry | None:
        """The first live entry of a shape."""
        heaps = self._heaps[shape.pool]
        heap = heaps.get(shape)
        while heap:
            entry = heap[0]
            if self._entries.get(entry[2].id) is entry:
                return entry
            heapq.heappop(heap)
        heaps.pop(shape, None)
        return None

    def key(self, job: Job) -> Key:
        """What a waiting job is sorted by."""
        return self._entries[job.id][0]

    def in_order(self, pool: str) -> Iterator[Job]:
        """All jobs of a pool: down the heaps as far as somebody looks, without taking anything out of them."""
        nearest = [(heap[0], 0, heap) for heap in self._heaps[pool].values() if heap]
        heapq.heapify(nearest)
        while nearest:
            entry, place, heap = heapq.heappop(nearest)
            for below in (2 * place + 1, 2 * place + 2):
                if below < len(heap):
                    heapq.heappush(nearest, (heap[below], below, heap))
            if self._entries.get(entry[2].id) is entry:
                yield entry[2]

    def all_in_order(self, pool: str) -> list[Job]:
        """The same at once, for when they are few."""
        return [job for _, _, job in sorted(self._entries.values()) if job.shape.pool == pool]

    def pop(self, shape: Shape) -> None:
        """Take the head out of its heap, for the time of a walk."""
        heapq.heappop(self._heaps[shape.pool][shape])

    def push_back(self, job: Job) -> None:
        heapq.heappush(self._heaps[job.shape.pool].setdefault(job.shape, []), self._entries[job.id])

    def rekey(self, now: float) -> None:
        """Before a decision, where keys change by themselves."""
        if self.order.key_changes is KeyChanges.ALWAYS or self._generation != self.order.generation:
            self._generation = self.order.generation
            jobs = list(self)
            self._heaps.clear()
            for job in jobs:
                self.add(job, now)


class QueueWalk:
    """One pass over the waiting jobs of a pool. It only looks: `end` puts back whatever it has taken."""

    def __init__(self, queue: Queue, pool: str) -> None:
        self._queue = queue
        self._heads: list[tuple[Entry, Shape]] = []
        self._taken: list[Job] = []
        self._out_of_turn: set[JobId] = set()
        for shape in queue.shapes(pool):
            self.open(shape)

    @property
    def next_entry(self) -> Entry | None:
        return self._heads[0][0] if self._heads else None

    def next_job(self) -> Job:
        """The next job among the open shapes; its shape is closed until `open` is called."""
        return heapq.heappop(self._heads)[0][2]

    def take(self, job: Job) -> None:
        """The job got something: the next of its shape may try."""
        if not self._queue.is_head(job):
            self._out_of_turn.add(job.id)  # passed over as soon as it comes to the top
            return
        self._pop(job)
        self.open(job.shape)

    def open(self, shape: Shape) -> None:
        while entry := self._queue.head(shape):
            if entry[2].id not in self._out_of_turn:
                heapq.heappush(self._heads, (entry, shape))  # keys never tie, so shapes are not compared
                return
            self._pop(entry[2])

    def _pop(self, job: Job) -> None:
        self._taken.append(job)
        self._queue.pop(job.shape)

    def rest(self) -> list[Job]:
        return [entry[2] for entry, _ in self._heads]

    def end(self) -> None:
        for job in self._taken:
            self._queue.push_back(job)
        self._taken.clear()
