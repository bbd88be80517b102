"""The waiting jobs: one heap for each shape, so that thousands of waiting jobs are a few comparisons."""

import heapq
import math
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from schedulearn.core.control.kinds import Entry, Kind, Kinds
from schedulearn.core.control.running_jobs import rank
from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Job, Placement, grouped
from schedulearn.core.domain.shape import Shape
from schedulearn.core.policies.stages import Facts, Key, KeyChanges, Order

_MANY_SHAPES = 64  # with fewer, the first job of each is quickly looked at


class Queue:
    """Waiting jobs that may be started, in the order of a policy."""

    def __init__(self, order: Order, facts: Facts, jobs: Iterable[Job] = (), now: float = 0.0) -> None:
        self.order, self.facts = order, facts
        self.demand: dict[str, float] = defaultdict(float)  # slots of each pool that all of them want together
        # By pool, those who can only go on where they are:
        self.suspended: dict[str, dict[JobId, Job]] = defaultdict(dict)
        # Of the same, those on each node, in order: their keys, the GPUs that they need there, and the jobs.
        self.suspended_on: dict[NodeName, list[tuple[Key, int, Job]]] = defaultdict(list)
        self._counts: dict[str, int] = defaultdict(int)  # by pool
        self._entries: dict[JobId, Entry] = {}
        self._heaps: dict[str, dict[Shape, list[Entry]]] = defaultdict(dict)  # by pool and shape
        self._kinds: dict[str, Kinds] = {}  # by pool, where there are many shapes
        self._expiring: list[tuple[float, int, JobId]] = []  # until when the key of an entry holds, where keys change
        self._added = 0
        self._generation = order.generation
        for job in jobs:
            self.add(job, now)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, job: JobId) -> bool:
        return job in self._entries

    def __iter__(self) -> Iterator[Job]:
        return (entry.job for entry in self._entries.values())

    @property
    def is_anyone_suspended(self) -> bool:
        return any(self.suspended.values())

    def count(self, pool: str) -> int:
        return self._counts[pool]

    def add(self, job: Job, now: float) -> None:
        """Add it, or give it its new key."""
        shape = job.shape
        if job.id not in self._entries:
            self.demand[shape.pool] += shape.workers.want * shape.slots
            self._counts[shape.pool] += 1
            if job.suspended_at:
                self.suspended[shape.pool][job.id] = job
        elif job.suspended_at:
            self._leave_nodes(self._entries[job.id])
        self._added += 1
        entry = Entry(rank(job, self.order, self.facts, now), self._added, job)
        self._entries[job.id] = entry
        for node, workers in _workers_on(job.suspended_at):
            insort(self.suspended_on[node], (entry.key, workers * shape.gpus, job))
        heaps = self._heaps[shape.pool]
        if shape in heaps and not job.suspended_at:  # such a job is alone in its shape: what is there is an old entry
            heapq.heappush(heaps[shape], entry)
        else:
            heaps[shape] = [entry]
        if self._kinds:
            self._renew_kind(shape)
        if self.order.key_changes is KeyChanges.ALWAYS:
            holds = self.order.key_holds(job, now, self.facts) if self.facts.steady else now
            heapq.heappush(self._expiring, (holds, self._added, job.id))

    def remove(self, job: JobId) -> None:
        # The heap's own entry is dropped when it comes to the top.
        entry = self._entries.pop(job, None)
        if entry:
            shape = entry.job.shape
            self.demand[shape.pool] -= shape.workers.want * shape.slots
            self._counts[shape.pool] -= 1
            if self.suspended[shape.pool].pop(job, None):
                self._leave_nodes(entry)
            if not self._entries:
                self._heaps.clear()
                self._kinds.clear()
            elif self._kinds:
                self._renew_kind(shape)

    def _leave_nodes(self, entry: Entry) -> None:
        for node, _ in _workers_on(entry.job.suspended_at):
            there = self.suspended_on[node]
            del there[bisect_left(there, (entry.key,))]

    def copy(self) -> "Queue":
        """Another one with the same jobs in the same order, to try things on."""
        other = Queue(self.order, self.facts)
        other.demand.update(self.demand)
        other._counts.update(self._counts)
        other._entries = dict(self._entries)
        other._added, other._generation = self._added, self._generation
        other._expiring = list(self._expiring)
        for pool, jobs in self.suspended.items():
            other.suspended[pool] = dict(jobs)
        for node, entries in self.suspended_on.items():
            other.suspended_on[node] = list(entries)
        for pool, heaps in self._heaps.items():
            other._heaps[pool] = {shape: list(heap) for shape, heap in heaps.items()}
        other._kinds = {pool: kinds.copy() for pool, kinds in self._kinds.items()}
        return other

    def kinds(self, pool: str) -> Kinds | None:
        """The kinds of its shapes; None where these are few."""
        kinds, heaps = self._kinds.get(pool), self._heaps[pool]
        if kinds is None and len(heaps) > _MANY_SHAPES:
            heads = [(shape, head) for shape in list(heaps) if (head := self.head(shape))]
            kinds = self._kinds[pool] = Kinds(heads)
        if kinds is not None and len(kinds) <= _MANY_SHAPES // 2:
            del self._kinds[pool]
            return None
        return kinds

    @property
    def variety(self) -> int:
        """How many shapes, or kinds of them, a decision looks at."""
        kinds = {pool: self.kinds(pool) for pool in list(self._heaps)}
        return sum(len(list(known)) if known else len(self._heaps[pool]) for pool, known in kinds.items())

    def kind_of(self, shape: Shape) -> Kind | None:
        kinds = self._kinds.get(shape.pool)
        return kinds.kind_of(shape) if kinds else None

    def _renew_kind(self, shape: Shape) -> None:
        if shape.pool in self._kinds:
            self._kinds[shape.pool].put(shape, self.head(shape))

    def is_head(self, job: Job) -> bool:
        entry = self.head(job.shape)
        return entry is not None and entry.job is job

    def positions(self, jobs: Iterable[Job]) -> dict[JobId, int]:
        """1 for the first. Counted when asked: nobody needs all positions at once."""
        ordered = sorted(self._entries.values())
        return {job.id: 1 + bisect_left(ordered, self._entries[job.id]) for job in jobs}

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
            if self._entries.get(entry.job.id) is entry:
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
            if self._entries.get(entry.job.id) is entry:
                yield entry.job

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
        if self._generation != self.order.generation:
            self._generation = self.order.generation
            for entry in list(self._entries.values()):
                self._renew(entry, now)
        due = []
        while self._expiring and self._expiring[0][0] <= now:
            due.append(heapq.heappop(self._expiring))
        for _, added, job in due:
            known = self._entries.get(job)
            if known and known.added == added and not self._renew(known, now):
                heapq.heappush(self._expiring, (now, added, job))

    def _renew(self, entry: Entry, now: float) -> bool:
        """Whether it has another key now."""
        changed = rank(entry.job, self.order, self.facts, now) != entry.key
        if changed:
            self.add(entry.job, now)
        return changed


def _workers_on(placements: Sequence[Placement]) -> Iterable[tuple[NodeName, int]]:
    there: dict[NodeName, int] = {}
    for placement, workers in grouped(placements):
        there[placement.node] = there.get(placement.node, 0) + workers
    return there.items()


class QueueWalk:
    """One pass over the waiting jobs of a pool. It only looks: `end` puts back whatever it has taken."""

    def __init__(self, queue: Queue, shapes: Iterable[Shape]) -> None:
        self._queue = queue
        self._heads: list[tuple[Entry, Shape | _Heads]] = []
        self._taken: list[Job] = []
        self._out_of_turn: set[JobId] = set()
        for shape in shapes:
            self.open(shape)

    @property
    def next_entry(self) -> Entry | None:
        return self._heads[0][0] if self._heads else None

    def next_job(self) -> Job:
        """The next job among the open shapes; its shape is closed until `open` is called."""
        return heapq.heappop(self._heads)[0].job

    def take(self, job: Job) -> None:
        """The job got something: the next of its shape may try."""
        if not self._queue.is_head(job):
            self._out_of_turn.add(job.id)  # passed over as soon as it comes to the top
            return
        self._pop(job)
        self.open(job.shape)

    def open(self, shape: Shape) -> None:
        while entry := self._queue.head(shape):
            if entry.job.id not in self._out_of_turn:
                heapq.heappush(self._heads, (entry, shape))  # keys never tie, so shapes are not compared
                return
            self._pop(entry.job)

    def _pop(self, job: Job) -> None:
        self._taken.append(job)
        self._queue.pop(job.shape)

    def rest(self) -> list[Job]:
        return [entry.job for entry, _ in self._heads]

    def end(self) -> None:
        for job in self._taken:
            self._queue.push_back(job)
        self._taken.clear()


class KindWalk(QueueWalk):
    """The same by kinds: where the least that a kind asks for cannot fit, all of it are passed over.

    Only where from then on never more than that is left. Of those passed over the `tired` are shown all the same.
    """

    def __init__(
        self,
        queue: Queue,
        kinds: Kinds,
        shown: Collection[Shape],
        hopeless: Callable[[Shape, Key], bool],
        tired: Callable[[float], bool],
    ) -> None:
        """`shown` are shapes that are always looked at by themselves; `tired` is asked with when a job was queued."""
        super().__init__(queue, {*shown, *kinds.alone})
        self._hopeless, self._tired, self._shown = hopeless, tired, frozenset(shown)
        self._passed: list[_Heads] = []
        for kind in kinds:
            heads = _Heads(kind)
            if hopeless(kind.floor, ()):
                self._pass_over(heads)
            else:
                self._go_on(heads)

    @property
    def passed(self) -> list[Kind]:
        return [heads.kind for heads in self._passed]

    def passed_since(self, before: Key | None) -> float:
        """When the first of those passed over was queued, of those that come before this key; inf: there is none."""
        return min((heads.oldest(before) for heads in self._passed), default=math.inf)

    @property
    def next_entry(self) -> Entry | None:
        while self._heads:
            entry, of = self._heads[0]
            if not isinstance(of, _Heads) or of.passed is not None or of.tried is entry:
                return entry
            if not self._hopeless(of.kind.floor, entry.key):
                of.tried = entry
                return entry
            heapq.heappop(self._heads)
            self._pass_over(of)
        return None

    def next_job(self) -> Job:
        entry, of = heapq.heappop(self._heads)
        if isinstance(of, _Heads):
            of.at += 1
            self._go_on(of)
        return entry.job

    def _pass_over(self, heads: "_Heads") -> None:
        heads.passed = heads.at
        self._passed.append(heads)
        self._go_on(heads)

    def _go_on(self, heads: "_Heads") -> None:
        """To the next one of them that is to be looked at."""
        entries, over = heads.kind.heads, heads.passed is not None
        if over and not self._tired(heads.kind.oldest):
            return
        while heads.at < len(entries):
            entry = entries[heads.at]
            job = entry.job
            if job.shape not in self._shown and (not over or self._tired(job.queued_at)):
                heapq.heappush(self._heads, (entry, heads))
                return
            heads.at += 1


class _Heads:
    """How far a walk has come among the first jobs of a kind's shapes."""

    __slots__ = ("at", "kind", "passed", "tried")

    def __init__(self, kind: Kind) -> None:
        self.kind, self.at = kind, 0
        self.tried: Entry | None = None  # who was the next when the kind was last found to have hope
        self.passed: int | None = None  # from which on they were passed over

    def oldest(self, before: Key | None) -> float:
        """When the first of those passed over was queued, of those that come before this key."""
        if not self.passed and before is None:
            return self.kind.oldest
        end = len(self.kind.heads) if before is None else bisect_left(self.kind.heads, (before,))
        return min((entry.job.queued_at for entry in self.kind.heads[self.passed : end]), default=math.inf)
