"""One pool's slots and the jobs to give them to: what an allocate stage works on, and what follows from it."""

import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, takewhile

from schedulearn.core.control.kinds import Kind
from schedulearn.core.control.ledger import Ledger, NodeLedger
from schedulearn.core.control.queue import KindWalk, Queue, QueueWalk
from schedulearn.core.control.running_jobs import NONE_RUNNING, InOrder, RunningJobs, rank
from schedulearn.core.control.suspension import SharedPlaces, put_back
from schedulearn.core.domain.errors import BadPlan
from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Job, Placement
from schedulearn.core.domain.resources import EPSILON
from schedulearn.core.domain.shape import Shape
from schedulearn.core.policies.stages import Ask, DoesNotFit, HeldBehind, Key, Memory, NoPlace, Policy, Refusal


@dataclass(frozen=True, slots=True)
class Grant:
    """A job is to have these placements: it starts, or changes its size."""

    job: JobId
    placements: tuple[Placement, ...]
    cores: int = 0  # whole ones of its only worker; 0: they are not counted


class Undo:
    """What was tried on the ledger, to be undone at the end of a decision."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._log: list[tuple[bool, Shape, Sequence[Placement]]] = []
        self._closed: list[NodeLedger] = []

    def take(self, shape: Shape, placements: Sequence[Placement]) -> None:
        self._ledger.take_all(shape, placements)
        self._log.append((True, shape, placements))

    def give_back(self, shape: Shape, placements: Sequence[Placement]) -> None:
        if placements:
            self._ledger.give_back_all(shape, placements)
            self._log.append((False, shape, placements))

    def close(self, node: NodeLedger) -> None:
        self._ledger.set_closed(node, True)
        self._closed.append(node)

    def mark(self) -> tuple[int, int]:
        return len(self._log), len(self._closed)

    def back_to(self, mark: tuple[int, int]) -> None:
        logged, closed = mark
        self.reopen(closed)
        while len(self._log) > logged:
            taken, shape, placements = self._log.pop()
            (self._ledger.give_back_all if taken else self._ledger.take_all)(shape, placements)

    def reopen(self, closed: int = 0) -> None:
        """All nodes, or those that were closed after so many."""
        while len(self._closed) > closed:
            self._ledger.set_closed(self._closed.pop(), False)

    def all(self) -> None:
        self.back_to((0, 0))


@dataclass(slots=True)
class Decision:
    """Only what changes, plus one refusal for each blocked shape or kind of shapes."""

    stops: list[JobId] = field(default_factory=list)  # lose all their workers
    grants: list[Grant] = field(default_factory=list)
    refusals: dict[Shape, tuple[JobId, Refusal]] = field(default_factory=dict)
    passed: list[Kind] = field(default_factory=list)  # nobody of these fits, and hardly anybody was looked at
    wake_at: float | None = None  # when to decide again although nothing happened
    memory: Memory = field(default_factory=dict)
    tried: Undo | None = None  # the stops and grants, if they are on the ledger already; None: they are not
    settled: bool = False  # would the same be decided again where jobs take turns, as long as nothing changes?


_DOES_NOT_FIT = DoesNotFit()


class AllocationPass:
    """Implements `policies.stages.Allocation`."""

    def __init__(
        self,
        pool: str,
        policy: Policy,
        queue: Queue,
        ledger: Ledger,
        running: RunningJobs,
        now: float,
        memory: Memory,
        undo: Undo,
        limits: dict[Shape, int],
        *,
        shared_places: bool = True,
        shown: Collection[Shape] = (),
    ) -> None:
        """`shared_places`: may running jobs lose their places to suspended ones, and the other way round?

        Of the shapes `shown` it is always found out by themselves whether they fit.
        """
        self.now, self.facts, self.order = now, queue.facts, policy.order
        self.memory = memory
        self.nodes = ledger
        self.waiting_count = queue.count(pool)
        self.refusals: dict[Shape, tuple[JobId, Refusal]] = {}
        self._pool, self._policy, self._queue, self._ledger = pool, policy, queue, ledger
        self._undo, self._limits = undo, dict(limits)
        self._free = ledger.free_slots(pool)
        self.suspended = suspended = queue.suspended[pool]
        if queue.demand[pool] <= self._free + EPSILON and not policy.allocate.elastic and not suspended:
            running = NONE_RUNNING  # there is room for everybody: nobody who runs needs to be looked at
        self._adjustable = running
        self.running = InOrder(running, policy.order, self.facts, now)
        self._left = self._free + running.slots
        self._given: dict[JobId, int] = {}
        self._changed: dict[JobId, tuple[Job, int]] = {}  # those that get another number of workers, in order
        self._placements: dict[JobId, tuple[Placement, ...]] = {}  # of waiting jobs that were placed at once
        self._losing: dict[JobId, Job] | None = None  # if all running jobs were given their min, but for these
        self._reserved_for: Job | None = None
        self._withheld = 0.0  # free slots kept back for that job; those who run behind it keep what they have
        self._uncounted = ledger.uncounted_slots(pool) if suspended else 0.0  # free, but only for who is there already
        self._shared_places: SharedPlaces | None = (
            None  # only needed where some must go back to places that others may have
        )
        if shared_places and suspended and running:
            self._shared_places = SharedPlaces(ledger, undo, running.values(), suspends=policy.order.suspends)
        self.sizes_are_fixed = not running.resizable and not any(
            shape.workers.min < shape.workers.max for shape in queue.shapes(pool)
        )
        self.everything_fits = bool(running) and not limits and self._shared_places is None
        self._victims: Victims | None = None  # while those who run are not looked at one by one
        self._walk = self._make_walk(shown)

    # --- what a stage sees

    @property
    def left(self) -> float:
        left = self._left if self._victims is None else self._victims.left
        return left - self._withheld

    @property
    def slots(self) -> float:
        return self._free + self._adjustable.slots

    @property
    def free(self) -> float:
        return self._free

    @property
    def fixed(self) -> float:
        return max(0.0, self._ledger.slots(self._pool) - self.slots)

    def shapes(self) -> set[Shape]:
        return {job.shape for job in self._adjustable.values()}.union(self._queue.shapes(self._pool))

    @property
    def preemptive(self) -> bool:
        return self.order.preemptive

    def ask(self, job: Job) -> Ask:
        workers = job.shape.workers
        return Ask(job.shape.slots, workers.min, workers.want, workers.max, len(job.placements))

    def room(self, job: Job) -> int:
        return math.floor(self.left / job.shape.slots + EPSILON)

    def rank(self, job: Job) -> Key:
        if not job.placements:
            return self._queue.key(job)
        return rank(job, self.order, self.facts, self.now)

    def waiting(self, *, all_of_them: bool = False) -> Iterator[Job]:
        return self._queue.in_order(self._pool) if all_of_them else self._heads()

    def _heads(self) -> Iterator[Job]:
        while self._walk.next_entry is not None:
            job = self._walk.next_job()
            if job.id not in self._given:  # it may have been given something out of turn
                yield job

    def secure(self) -> list[Job]:
        return [] if self.order.preemptive else [job for job in self.running.in_order() if not job.yields]

    def claimants(self) -> Iterator[Job]:
        losable = self.order.preemptive
        return self._merged([pair for pair in self.running.with_ranks() if losable or pair[1].yields])

    def candidates(self) -> Iterator[Job]:
        if not self._adjustable or self._shared_places:
            yield from self._one_by_one()
            return
        last_first = self.running.last_first()
        if not self.order.preemptive:
            last_first = takewhile(lambda pair: pair[1].yields, last_first)  # these come last; no other loses anything
        victims = self._victims = Victims(last_first, self._free)
        while (entry := self._walk.next_entry) is not None:
            if victims.free < -EPSILON:
                victims.come_to(entry.key)
            victims.at = entry.key
            yield self._walk.next_job()
        victims.come_to(None)

    def _one_by_one(self) -> Iterator[Job]:
        """The same by looking at all who run."""
        for job in chain(self.secure(), self.claimants()):
            if job.placements:
                self.give(job, len(job.placements))
            else:
                yield job

    def give(self, job: Job, workers: int) -> bool:
        if self._victims is not None:
            return self._give_from(self._victims, job, workers)
        more = (workers - self._given_so_far(job)) * job.shape.slots
        placements, first = job.placements, job.id not in self._given
        if more > self._within_reach(job) + EPSILON:
            return False
        if first and self._has_no_place(job):
            return False
        if self._shared_places and not self._shared_places.put(job):
            return False  # somebody who goes first is there
        if not placements:
            if not self._adjustable and not self._place_now(job, workers):
                return False
            if first:
                self._walk.take(job)
                if job.shape in self._limits:
                    self._limits[job.shape] -= 1
            self._changed[job.id] = (job, workers)
        else:
            if workers != len(placements):
                self._changed[job.id] = (job, workers)
            else:
                self._changed.pop(job.id, None)
            if self._losing:
                self._losing.pop(job.id, None)
        if job.suspended_at and self._uncounted:
            outside = min(more, self._uncounted)
            self._uncounted, more = self._uncounted - outside, more - outside
        self._left -= more
        self._given[job.id] = workers
        return True

    def _within_reach(self, job: Job) -> float:
        reach = self._left if job.placements else self._left - self._withheld
        return reach + self._uncounted if job.suspended_at else reach

    def _has_no_place(self, job: Job) -> bool:
        """It would fit by count, but was found to have no place."""
        return not job.placements and self._limits.get(job.shape, 1) <= 0

    def _give_from(self, victims: "Victims", job: Job, workers: int) -> bool:
        """The same while those who run are only looked at where they may lose what they have."""
        if job.placements:
            raise BadPlan(f"the allocate stage changes job {job.id}, which runs, while it goes through those who wait")
        before = self._given.get(job.id)
        first, more = before is None, (workers - (before or 0)) * job.shape.slots
        if (first and self._limits and self._has_no_place(job)) or not victims.covers(more + self._withheld):
            return False
        if first:
            self._walk.take(job)
            if job.shape in self._limits:
                self._limits[job.shape] -= 1
        self._changed[job.id] = (job, workers)
        self._given[job.id] = workers
        victims.free -= more
        return True

    def give_all(self, sizes: Iterable[tuple[Job, int]]) -> None:
        if not self._adjustable or self._shared_places:  # each has a place already, or must be found to have one
            for job, workers in sizes:
                self.give(job, workers)
            return
        left, given, changed = self._left, self._given, self._changed
        for job, workers in sizes:
            before = given.get(job.id)
            left -= (workers - (self._given_so_far(job) if before is None else before)) * job.shape.slots
            given[job.id] = workers
            if workers != len(job.placements):
                changed[job.id] = (job, workers)
            else:
                changed.pop(job.id, None)
        if left < -EPSILON * len(given):
            raise BadPlan("the allocate stage gave more than there is")
        self._left = left

    def give_least(self, cost: float, but: Sequence[Job]) -> None:
        self._losing = {job.id: job for job in but}
        self._left -= cost * (len(self._adjustable) - len(but))
        if self._adjustable.slots > cost * len(self._adjustable) + EPSILON:  # else all have just that
            for number, job in self._adjustable.items():
                if len(job.placements) > job.shape.workers.min and number not in self._losing:
                    self._changed[number] = (job, job.shape.workers.min)

    def refuse(self, job: Job, why: Refusal | None = None, *, rest: bool = False) -> None:
        for other in self._walk.rest() if rest else ():
            self.refusals[other.shape] = (other.id, HeldBehind(job.id))
        if job.placements:
            return
        if why is None:
            ask = self.ask(job)
            if not self._is_within(ask.want * ask.cost):
                why = _DOES_NOT_FIT
            else:
                why = HeldBehind(self._reserved_for.id) if self._reserved_for is not None else NoPlace()
        self.refusals[job.shape] = (job.id, why)

    def _is_within(self, cost: float) -> bool:
        """Is so much left, what is withheld included?"""
        return cost <= self._left + EPSILON if self._victims is None else self._victims.covers(cost)

    @property
    def passed(self) -> list[Kind]:
        """The kinds of which nobody fits."""
        return self._walk.passed if isinstance(self._walk, KindWalk) else []

    def passed_since(self, before: Job | None) -> float:
        if not isinstance(self._walk, KindWalk):
            return math.inf
        return self._walk.passed_since(self._queue.key(before) if before else None)

    def reserve(self, job: Job) -> None:
        if self._shared_places:
            self._shared_places.clear()
        before, missing = self._ledger.free_slots(self._pool), job.shape.workers.want
        for possible, node in (
            self._ledger.these(job.suspended_at) if job.suspended_at else self._ledger.by_promise(job.shape)
        ):
            if missing <= 0:
                break
            self._undo.close(node)
            missing -= possible
        self._withheld, self._reserved_for = before - self._ledger.free_slots(self._pool), job

    # --- what follows

    def end(self) -> None:
        self._walk.end()
        if self._victims:
            self._victims.close()
        if self._shared_places:
            self._shared_places.end()

    def stopped(self) -> list[Job]:
        """Those that lose all their workers."""
        if self._victims is not None:
            return self._victims.lost
        if self._losing is not None:
            return list(self._losing.values())
        given = self._given
        return [job for number, job in self._adjustable.items() if number not in given]

    def changed(self) -> list[tuple[Job, int]]:
        """Those that get another number of workers, in the order in which they were given."""
        return list(self._changed.values())

    def placed(self, job: Job) -> tuple[Placement, ...] | None:
        return self._placements.get(job.id)

    # --- helpers

    def _make_walk(self, shown: Collection[Shape]) -> QueueWalk:
        stage = self._policy.allocate
        kinds = self._queue.kinds(self._pool) if stage.tries else None
        if kinds is None:
            return QueueWalk(self._queue, self._queue.shapes(self._pool))
        guard = stage.starvation_guard
        if self.order.preemptive and self.fixed <= 0:
            guard = math.inf  # nobody waits for those who cannot be interrupted

        def tired(queued_at: float) -> bool:
            return queued_at + guard <= self.now and self._reserved_for is None

        return KindWalk(self._queue, kinds, shown, self._hopeless, tired)

    def _hopeless(self, least: Shape, key: Key) -> bool:
        """Does nobody fit who asks for at least so much and comes after this key? Later on, there is never more."""
        workers = least.workers.want if self._policy.allocate.tries == "want" else least.workers.min
        cost = workers * least.slots
        if self._victims is not None:
            self._victims.come_to(key)
            self._victims.at = key
            return not self._victims.covers(cost)
        if cost > self._left - self._withheld + EPSILON:
            return True
        if self._adjustable:
            return False
        # Nobody leaves in this contest, so there must be places, too. One that stays on one node may do with less.
        needed = least.workers.min if least.one_node else workers
        return not self._ledger.has_room(least, needed)

    def _given_so_far(self, job: Job) -> int:
        workers = self._given.get(job.id)
        if workers is None:
            has_least = self._losing is not None and job.placements and job.id not in self._losing
            return job.shape.workers.min if has_least else 0
        return workers

    def _merged(self, running: Iterable[tuple[Key, Job]]) -> Iterator[Job]:
        walk = self._walk
        for key, job in running:
            while walk.next_entry is not None and walk.next_entry.key < key:
                yield walk.next_job()
            yield job
        yield from self._heads()

    def _place_now(self, job: Job, workers: int) -> bool:
        """Nobody leaves in this contest: what is free now is all there is, so it can be placed at once."""
        mark = self._undo.mark()
        self._undo.give_back(job.shape, self._placements.get(job.id, ()))  # it may be given something else than before
        place = place_workers if job.id in self._placements else place_new
        placements = place(job, workers, self._policy, self._ledger, self._undo, self.memory)
        if placements is None:
            self._undo.back_to(mark)
            return False
        self._placements[job.id] = placements
        return True


class Victims:
    """Running jobs from the back of the order, looked at only as far as they may lose what they have.

    Whoever goes before them takes what is free, and beyond that from what is left for those who come later. So a walk
    through the order keeps a debt (`free` below 0): it comes to those running jobs that have too little left behind
    them to cover it. All others keep what they have, and are never looked at.
    """

    def __init__(self, last_first: Iterator[tuple[Key, Job]], free: float) -> None:
        self.free = free
        self.lost: list[Job] = []  # in order
        self._coming: Iterator[tuple[Key, Job]] | None = last_first  # None: those further to the front are passed
        self._seen: list[tuple[Key, Job]] = []
        self._sums: list[float] = []  # the slots of each of them and of all that come after it
        self.at: Key = ()  # where the walk is; all further to the front have been decided

    def come_to(self, key: Key | None) -> None:
        """Those before this key (None: all) who have too little left behind them lose what they have."""
        while self.free < -EPSILON:
            self._look_until(-self.free)
            # The last in the order lose nothing as long as they do not hold the debt together.
            first = bisect_left(self._sums, -self.free - EPSILON)
            if first == len(self._sums) or (key is not None and self._seen[first][0] > key):
                break
            job = self._seen[first][1]
            self.lost.append(job)
            self.free += len(job.placements) * job.shape.slots
            del self._seen[first:], self._sums[first:]
            self.close()

    def close(self) -> None:
        """Nobody further to the front is looked at any more."""
        self._coming = None

    def covers(self, cost: float) -> bool:
        """Is so much free, or held by those who come later?"""
        debt, sums = cost - self.free, self._sums
        if debt <= EPSILON:
            return True
        if self._coming is not None and (not sums or sums[-1] < debt - EPSILON):
            self._look_until(debt)
        if not sums or sums[-1] < debt - EPSILON:
            return False
        return self._seen[bisect_left(sums, debt - EPSILON)][0] > self.at

    @property
    def left(self) -> float:
        """What is free or held by those who come later."""
        self._look_until(math.inf)
        later = sum(1 for key, _ in self._seen if key > self.at)
        return self.free + (self._sums[later - 1] if later else 0.0)

    def _look_until(self, slots: float) -> None:
        """Until those who were looked at hold so much together, or all are known who come later."""
        seen, sums = self._seen, self._sums
        while self._coming is not None and (not seen or (sums[-1] < slots - EPSILON and seen[-1][0] > self.at)):
            pair = next(self._coming, None)
            if pair is None:
                self._coming = None
                return
            seen.append(pair)
            sums.append((sums[-1] if sums else 0.0) + len(pair[1].placements) * pair[1].shape.slots)


def place_workers(
    job: Job, workers: int, policy: Policy, ledger: Ledger, undo: Undo, memory: Memory
) -> tuple[Placement, ...] | None:
    """Places for so many workers in all, where it is if it is somewhere and that is best; taken from the ledger."""
    if job.suspended_at and not job.placements:
        return put_back(job, ledger, undo)
    if not job.placements or job.spec.resizes_live:
        return _extended(job, workers, policy, ledger, undo, memory)
    return _placed_anew(job, workers, policy, ledger, undo, memory)


def place_new(
    job: Job, workers: int, policy: Policy, ledger: Ledger, undo: Undo, memory: Memory
) -> tuple[Placement, ...] | None:
    """The same for one that waits: where sizes are the policy's affair its least number, if there is no place for more.

    An allocate stage counts slots alone; of memory, say, there may be enough for fewer.
    """
    least = job.shape.workers.min
    found = place_workers(job, workers, policy, ledger, undo, memory)
    if found is None and policy.allocate.elastic and least < workers:
        return place_workers(job, least, policy, ledger, undo, memory)
    return found


def _placed_anew(
    job: Job, workers: int, policy: Policy, ledger: Ledger, undo: Undo, memory: Memory
) -> tuple[Placement, ...] | None:
    """It starts again with another size anyway: it leaves where it is for a place with fewer nodes, if there is one."""
    mark, before = undo.mark(), dict(memory)
    found = _extended(job, workers, policy, ledger, undo, memory)
    if found and _nodes_of(found) == 1:
        return found
    undo.back_to(mark)
    undo.give_back(job.shape, job.placements)
    names = _places(job, (), workers, policy, ledger, memory)
    if names and (found is None or len(set(names)) < _nodes_of(found)):
        return tuple(take_on_all(names, job.shape, ledger, undo))
    undo.back_to(mark)
    memory.clear()
    memory.update(before)
    return _extended(job, workers, policy, ledger, undo, memory) if found else None


def _nodes_of(placements: Sequence[Placement]) -> int:
    return len({placement.node for placement in placements})


def _extended(
    job: Job, workers: int, policy: Policy, ledger: Ledger, undo: Undo, memory: Memory
) -> tuple[Placement, ...] | None:
    """Places for so many workers, those it has among them."""
    kept = keep_placements(job.placements, workers)
    if len(kept) < len(job.placements):
        dropped = list(job.placements)
        for placement in kept:
            dropped.remove(placement)
        undo.give_back(job.shape, dropped)
    missing = workers - len(kept)
    if not missing:
        return tuple(kept)
    new: list[Placement] = []
    for node in dict.fromkeys(placement.node for placement in kept):  # grow where it already is
        held = ledger.node(node)
        if room := min(missing - len(new), held.room_for(job.shape) if held else 0):
            new += _take_on(node, room, job.shape, ledger, undo)
    if len(new) < missing:
        names = _places(job, kept, missing - len(new), policy, ledger, memory)
        if names is None and not (job.shape.one_node and new):
            return None
        new += take_on_all(names or (), job.shape, ledger, undo)
    return (*kept, *new)


def _places(
    job: Job, kept: Sequence[Placement], missing: int, policy: Policy, ledger: Ledger, memory: Memory
) -> Sequence[NodeName] | None:
    """Where the place stage puts so many more of its workers.

    One that stays on one node goes there if the stage has chosen a single one; else where all of them have room, or
    where most have, if these are enough for it.
    """
    if not job.shape.one_node:
        return policy.place.place(job, job.shape, missing, ledger, memory)
    if kept:
        return None
    after = dict(memory)
    names = policy.place.place(job, job.shape, missing, ledger, after)
    if names and len(set(names)) == 1:
        memory.update(after)
        return names
    node = ledger.first_with_room(job.shape, missing)
    room, node = (missing, node) if node else next(iter(ledger.by_room(job.shape)), (0, None))
    return [node.name] * room if node and room >= job.shape.workers.min else None


def place_elsewhere(
    job: Job, policy: Policy, ledger: Ledger, undo: Undo, memory: Memory
) -> tuple[Placement, ...] | None:
    """As many other placements as it has now; taken from the ledger."""
    names = _places(job, (), len(job.placements), policy, ledger, memory)
    return None if names is None else tuple(take_on_all(names, job.shape, ledger, undo))


def take_on_all(names: Iterable[NodeName], shape: Shape, ledger: Ledger, undo: Undo) -> list[Placement]:
    """A worker on each of these nodes, as often as it is named."""
    placements: list[Placement] = []
    for name, equal in groupby(names):
        placements += _take_on(name, len(list(equal)), shape, ledger, undo)
    return placements


def _take_on(node: NodeName, workers: int, shape: Shape, ledger: Ledger, undo: Undo) -> Sequence[Placement]:
    """More workers on this node; BadPlan if the place stage chose one that is not there or has no room."""
    held = ledger.node(node)
    if held is None:
        raise BadPlan(f"the place stage chose a node that does not exist: {node}")
    if held.room_for(shape) < workers:
        raise BadPlan(f"the place stage chose {node}, which has no room")
    if not shape.gpus or not held.node.devices:
        placements: Sequence[Placement] = (held.placement,) * workers
        undo.take(shape, placements)
        return placements
    placements = []
    for _ in range(workers):  # each takes its devices before the next one looks for some
        placements.append(Placement(node, held.pick_devices(shape)))
        undo.take(shape, placements[-1:])
    return placements


def keep_placements(placements: tuple[Placement, ...], workers: int) -> list[Placement]:
    """Those to keep when a job shrinks: on the nodes where it has most workers."""
    if len(placements) <= workers:
        return list(placements)
    counts: dict[str, int] = {}
    for placement in placements:
        counts[placement.node] = counts.get(placement.node, 0) + 1
    return sorted(placements, key=lambda placement: -counts[placement.node])[:workers]
