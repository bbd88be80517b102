"""AFS-L: short jobs first, and slots to where they shorten the waiting of all most."""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import NamedTuple

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.resources import EPSILON
from schedulearn.core.domain.shape import Shape
from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.core.policies.allocate.elastic import give_least
from schedulearn.core.policies.stages import Allocate, Allocation, Facts


class Afs(Allocate):
    """Hand workers out one at a time, each to the champion of all jobs that can still take one.

    Of two jobs, S has less time left and L more, each with what it has been given so far. L wins if one more worker
    brings it more: (s_L(n+1) − s_L(n)) / s_L(n+1) against (s_S(n+1) − s_S(n)) / s_S(n). The champion is found by one
    scan in ascending order of time left.

    A job that has nothing gets its min at once. It counts as longer than all that have something, so that it wins
    against whoever would not even double its speed. Among those that have nothing the order decides; with `srtf-min`
    that is the time left with min workers, as AFS-L has it.
    """

    elastic = True

    def __init__(self) -> None:
        self._tame: set[JobId] = set()  # running jobs that are known to double their speed by no step

    def allocate(self, allocation: Allocation) -> float | None:
        if allocation.sizes_are_fixed:
            give_least(allocation)
        elif not self._start_all_at_once(allocation):
            _start_in_turn(allocation)
        return None

    def enough(self, job: Job, facts: Facts) -> int:
        workers = job.shape.workers
        return facts.speedup(job).summit(workers.min, workers.max)

    def _start_all_at_once(self, allocation: Allocation) -> bool:
        """The short way where everybody's min takes as many slots and nobody doubles its speed; else False.

        Then the first of the order, as many as there is room for, get their min before anybody gets more. So running
        jobs need not be sorted: it is enough to see the last of them.
        """
        costs = {shape.workers.min * shape.slots for shape in allocation.shapes()}
        if len(costs) != 1 or not allocation.everything_fits:
            return False
        (cost,) = costs
        room = int(allocation.slots / cost + EPSILON) - len(allocation.running)
        starting, losing = _who_changes(allocation, max(0, room))
        if self._someone_doubles(allocation, starting):
            return False
        allocation.give_least(cost, but=losing)
        for job in starting:
            allocation.give(job, job.shape.workers.min)
        for job in allocation.waiting():
            allocation.refuse(job)
        if allocation.left > EPSILON:
            lost = {job.id for job in losing}
            _grow(allocation, [job for job in allocation.running.values() if job.id not in lost] + starting)
        return True

    def _someone_doubles(self, allocation: Allocation, starting: Sequence[Job]) -> bool:
        if not allocation.facts.steady or len(self._tame) > 1000 + 4 * len(allocation.running):
            self._tame.clear()
        unknown = [job for job in allocation.running.values() if job.id not in self._tame]
        if any(_doubles(allocation.facts.speedup(job)) for job in (*unknown, *starting)):
            return True
        self._tame.update(job.id for job in unknown)
        return False


# --- who gets its min


def _start_in_turn(allocation: Allocation) -> None:
    """Past what does not fit; who doubles its speed comes before a job that has nothing."""
    growing, late = _Growing(allocation), _Growing(allocation)
    may_double = False
    for job in chain(allocation.secure(), allocation.claimants()):
        if may_double and (allocation.preemptive or not job.placements):
            growing.hand_out(least_gain=1.0)
        if allocation.give(job, job.shape.workers.min):
            (late if job.yields else growing).add([job])
            may_double = may_double or (not job.yields and _doubles(allocation.facts.speedup(job)))
        else:
            allocation.refuse(job)
    growing.hand_out()
    late.hand_out()


def _grow(allocation: Allocation, jobs: list[Job]) -> None:
    """More for these, who have their min; who has reached its target gets what the others leave."""
    late = [job for job in jobs if job.yields]
    for some in ([job for job in jobs if not job.yields], late) if late else (jobs,):
        growing = _Growing(allocation)
        growing.add(some)
        growing.hand_out()


def _who_changes(allocation: Allocation, room: int) -> tuple[list[Job], list[Job]]:
    """Waiting jobs for which there is room or that go before a running one, and the running ones that lose by it."""
    waiting = allocation.waiting(all_of_them=True)
    starting, losing = list(islice(waiting, room)), []
    for job, (rank, last) in zip(waiting, allocation.running.last_first(), strict=False):
        if allocation.rank(job) > rank or not (allocation.preemptive or last.yields):
            break
        starting.append(job)
        losing.append(last)
    return starting, losing


# --- who gets more


class _Step(NamedTuple):
    """What one more worker means to a job that has n."""

    speed: float  # s(n)
    lacks: float  # as the longer job: (s(n+1) − s(n)) / s(n+1)
    gains: float  # as the shorter job: (s(n+1) − s(n)) / s(n); always more than what it lacks


class _Ladder:
    """The steps of all jobs of one shape and curve. Who has no step left, at max or without a gain, drops out."""

    def __init__(self, shape: Shape, curve: SpeedUp) -> None:
        self.cost = shape.slots
        self.least = shape.workers.min
        self.steps: dict[int, _Step] = {}
        for n in range(shape.workers.min, shape.workers.max):
            gain = curve(n + 1) - curve(n)
            if gain <= 0:
                break
            self.steps[n] = _Step(curve(n), gain / curve(n + 1), gain / curve(n))


_ladder = lru_cache(maxsize=4096)(_Ladder)


@lru_cache(maxsize=4096)
def _doubles(curve: SpeedUp) -> bool:
    """Is there a step that makes a job at least twice as fast?"""
    return any(curve(n + 1) >= 2 * curve(n) for n in range(1, curve.most))


class _Work:
    """The time that a job has left at speed 1, in this decision."""

    __slots__ = ("_facts", "_now")

    def __init__(self, allocation: Allocation) -> None:
        self._facts, self._now = allocation.facts, allocation.now

    def of(self, job: Job) -> float:
        return self._facts.remaining(job, self._now) * self._facts.speedup(job)(job.shape.workers.want)


class _Group:
    """Jobs of one ladder with the same number of workers: in a scan only the shortest of them can win."""

    __slots__ = ("_heap", "_jobs", "_work", "ladder", "step", "workers")

    def __init__(self, ladder: _Ladder, workers: int, work: "_Work") -> None:
        self.ladder, self.workers, self.step = ladder, workers, ladder.steps[workers]
        self._work = work
        self._jobs: list[Job] = []
        self._heap: list[tuple[float, JobId, Job]] = []  # the same as a heap, made when the lengths first matter

    def __len__(self) -> int:
        return len(self._jobs) or len(self._heap)

    def jobs(self) -> list[Job]:
        return self._jobs or [job for _, _, job in self._heap]

    def add(self, jobs: list[Job]) -> None:
        if self._heap:
            for job in jobs:
                heapq.heappush(self._heap, (self._work.of(job), job.id, job))
        else:
            self._jobs += jobs

    def remove(self, jobs: list[Job]) -> None:
        gone = {job.id for job in jobs}
        self._jobs = [job for job in self.jobs() if job.id not in gone]
        self._heap = []

    def lengths(self) -> list[tuple[float, JobId, "_Group", Job]]:
        """How long each takes with what it has; serials never tie, so that what comes after them is not compared."""
        speed = self.step.speed
        return [(self._work.of(job) / speed, job.id, self, job) for job in self.jobs()]

    def shortest(self) -> tuple[float, JobId]:
        if self._jobs:
            self._heap = [(self._work.of(job), job.id, job) for job in self._jobs]
            self._jobs = []
            heapq.heapify(self._heap)
        work, serial, _ = self._heap[0]
        return work / self.step.speed, serial

    def pop_shortest(self) -> Job:
        self.shortest()
        return heapq.heappop(self._heap)[2]


class _Growing:
    """Jobs that have their min and may get more."""

    def __init__(self, allocation: Allocation) -> None:
        self._allocation = allocation
        self._work = _Work(allocation)
        self._added: list[Job] = []
        self._groups: dict[tuple[_Ladder, int], _Group] = {}
        self._dropped_out: list[tuple[int, list[Job]]] = []  # (workers, jobs)
        self._given: dict[JobId, int] = {}  # those who have been given more than min
        self._left = 0.0

    def add(self, jobs: list[Job]) -> None:
        self._added += jobs

    def hand_out(self, least_gain: float = 0.0) -> None:
        """Give all that is left, as long as the champion gains at least so much."""
        self._left = self._allocation.left + EPSILON
        if self._left <= 2 * EPSILON:
            return
        self._group_added()
        while rivals := [group for group in self._groups.values() if group.ladder.cost <= self._left]:
            winners = _unrivalled(rivals)
            champion = winners[0] if winners else _scan(rivals)
            if champion.step.gains < least_gain:
                break
            if winners:
                self._raise_all(winners)
            else:
                self._raise_shortest(champion)
        self._give()

    def _group_added(self) -> None:
        speedup = self._allocation.facts.speedup
        alike: dict[tuple[Shape, SpeedUp], list[Job]] = defaultdict(list)
        for job in self._added:
            alike[job.shape, speedup(job)].append(job)
        for (shape, curve), jobs in alike.items():
            ladder = _ladder(shape, curve)
            self._put(ladder, ladder.least, jobs)
        self._added.clear()

    def _put(self, ladder: _Ladder, workers: int, jobs: list[Job]) -> None:
        if workers not in ladder.steps:
            self._dropped_out.append((workers, jobs))
            return
        group = self._groups.get((ladder, workers))
        if group is None:
            group = self._groups[ladder, workers] = _Group(ladder, workers, self._work)
        group.add(jobs)

    def _raise_all(self, groups: list[_Group]) -> None:
        """One more worker for each of their jobs, the shortest first where there is not enough for all."""
        if sum(len(group) * group.ladder.cost for group in groups) > self._left:
            self._raise_in_turn(groups)
            return
        for group in groups:
            del self._groups[group.ladder, group.workers]
        for group in groups:
            self._left -= len(group) * group.ladder.cost
            self._put(group.ladder, group.workers + 1, group.jobs())

    def _raise_in_turn(self, groups: list[_Group]) -> None:
        raised: dict[_Group, list[Job]] = {group: [] for group in groups}
        for _, _, group, job in sorted(line for each in groups for line in each.lengths()):
            if group.ladder.cost <= self._left:
                self._left -= group.ladder.cost
                raised[group].append(job)
        for group, jobs in raised.items():
            group.remove(jobs)
            self._put(group.ladder, group.workers + 1, jobs)
        self._groups = {key: group for key, group in self._groups.items() if group}

    def _raise_shortest(self, group: _Group) -> None:
        job = group.pop_shortest()
        self._left -= group.ladder.cost
        if not group:
            del self._groups[group.ladder, group.workers]
        self._put(group.ladder, group.workers + 1, [job])

    def _give(self) -> None:
        sizes = [(group.workers, group.jobs()) for group in self._groups.values()] + self._dropped_out
        given = self._given
        more = [
            (job, workers)
            for workers, jobs in sizes
            for job in jobs
            if workers != given.get(job.id, job.shape.workers.min)
        ]
        given.update([(job.id, workers) for job, workers in more])
        self._allocation.give_all(more)


def _scan(groups: list[_Group]) -> _Group:
    """The champion, by one scan over the shortest job of each group."""
    in_order = sorted([(group.shortest(), group) for group in groups])
    champion = in_order[0][1]
    for _, group in in_order:
        if group.step.lacks > champion.step.gains:
            champion = group
    return champion


def _unrivalled(groups: Iterable[_Group]) -> list[_Group]:
    """Groups that win against all others whatever the lengths, until each of their jobs has one more worker."""
    best = max([group.step.lacks for group in groups])
    winners = []
    for group in groups:
        step: _Step | None = group.step
        if group.step.lacks == best:
            winners.append(group)
            step = group.ladder.steps.get(group.workers + 1)
        if step and step.gains >= best:
            return []
    return winners
