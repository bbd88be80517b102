"""AFS-L: short jobs first, and slots to where they shorten the waiting of all most."""

import heapq
from functools import lru_cache
from typing import NamedTuple

from schedulearn.domain.ids import JobId
from schedulearn.domain.job import Job
from schedulearn.domain.shape import Shape
from schedulearn.domain.speedup import SpeedUp
from schedulearn.policies.stages import Contest

_FORGIVEN = 1e-9  # fractions of a core never add up exactly


class Afs:
    """Hand workers out one at a time, each to the champion of all jobs that can still take one.

    Of two jobs, S has less time left and L more, each with what it has been given so far. L wins if another worker
    makes it faster by more than S would be slower without one: (s_L(n+1) − s_L(n)) / s_L(n+1) against
    (s_S(n+1) − s_S(n)) / s_S(n). The champion is found by a scan in ascending order of time left.

    A job that has nothing gets its min at once. It counts as longer than all that have something, so it wins
    against whoever would less than double its speed. Among those that have nothing the order decides; with
    `srtf-min` that is the time left with min workers, as AFS-L has it.
    """

    elastic = True

    def allocate(self, contest: Contest) -> float | None:
        growing = _Growing(contest)
        for job in contest.in_order():
            # Only who doubles its speed by one more worker comes before a job that has nothing.
            if growing.has_doubling and (contest.preemptive or not job.spots):
                growing.hand_out(least=1.0)
            if contest.give(job, job.shape.workers.min):
                growing.add(job)
            else:
                contest.refuse(job)
        growing.hand_out()
        return None


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
        self.doubles = any(step.gains >= 1 for step in self.steps.values())


_ladder = lru_cache(maxsize=4096)(_Ladder)
_Entry = tuple[float, JobId, Job]  # (time left at speed 1, serial, job)


class _Group:
    """Jobs of one ladder with the same number of workers: in a scan only the shortest of them can win."""

    __slots__ = ("jobs", "ladder", "step", "workers")

    def __init__(self, ladder: _Ladder, workers: int, jobs: list[_Entry]) -> None:
        self.ladder, self.workers, self.jobs = ladder, workers, jobs  # the jobs are a heap
        self.step = ladder.steps[workers]

    def shortest(self) -> tuple[float, JobId]:
        work, serial, _ = self.jobs[0]
        return work / self.step.speed, serial


class _Growing:
    """Jobs that have their min and may get more."""

    def __init__(self, contest: Contest) -> None:
        self.has_doubling = False  # is there a job that one more worker may make twice as fast?
        self._contest = contest
        self._added: list[tuple[Job, _Ladder]] = []
        self._groups: dict[tuple[_Ladder, int], _Group] = {}
        self._dropped_out: list[tuple[int, list[_Entry]]] = []  # (workers, jobs)
        self._given: dict[JobId, int] = {}
        self._left = 0.0

    def add(self, job: Job) -> None:
        """It has just been given its min."""
        ladder = _ladder(job.shape, self._contest.facts.speedup(job))
        self.has_doubling = self.has_doubling or ladder.doubles
        self._added.append((job, ladder))

    def hand_out(self, least: float = 0.0) -> None:
        """Give all that is left, as long as the champion gains at least so much."""
        self._left = self._contest.left + _FORGIVEN
        if not any(ladder.cost <= self._left for _, ladder in self._added) and not self._groups:
            return
        self._group_added()
        while rivals := [group for group in self._groups.values() if group.ladder.cost <= self._left]:
            winners = _unrivalled(rivals)
            champion = winners[0] if winners else _scan(rivals)
            if champion.step.gains < least:
                break
            if winners:
                self._raise_all(winners)
            else:
                self._raise_shortest(champion)
        self._give()

    def _group_added(self) -> None:
        facts, now = self._contest.facts, self._contest.now
        for job, ladder in self._added:
            self._given[job.id] = ladder.least
            work = facts.remaining(job, now) * facts.speedup(job)(job.shape.workers.want)
            self._put(ladder, ladder.least, [(work, job.id, job)])
        self._added.clear()

    def _put(self, ladder: _Ladder, workers: int, jobs: list[_Entry]) -> None:
        group = self._groups.get((ladder, workers))
        if workers not in ladder.steps:
            self._dropped_out.append((workers, jobs))
        elif group is None:
            self._groups[ladder, workers] = _Group(ladder, workers, jobs)
        else:
            for entry in jobs:
                heapq.heappush(group.jobs, entry)

    def _raise_all(self, groups: list[_Group]) -> None:
        """One more worker for each of their jobs, the shortest first where there is not enough for all."""
        if sum(len(group.jobs) * group.ladder.cost for group in groups) > self._left:
            self._raise_in_turn(groups)
            return
        for group in groups:
            del self._groups[group.ladder, group.workers]
        for group in groups:
            self._left -= len(group.jobs) * group.ladder.cost
            self._put(group.ladder, group.workers + 1, group.jobs)

    def _raise_in_turn(self, groups: list[_Group]) -> None:
        heads = [(group.shortest(), group) for group in groups]  # serials never tie, so groups are not compared
        heapq.heapify(heads)
        while heads:
            group = heads[0][1]
            if group.ladder.cost > self._left or not self._raise_shortest(group):
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (group.shortest(), group))

    def _raise_shortest(self, group: _Group) -> bool:
        """One more worker for the shortest job of a group; False if it was the last one."""
        entry = heapq.heappop(group.jobs)
        self._left -= group.ladder.cost
        if not group.jobs:
            del self._groups[group.ladder, group.workers]
        self._put(group.ladder, group.workers + 1, [entry])
        return bool(group.jobs)

    def _give(self) -> None:
        sizes = [(group.workers, group.jobs) for group in self._groups.values()]
        for workers, jobs in sizes + self._dropped_out:
            for _, serial, job in jobs:
                if workers != self._given[serial]:
                    self._given[serial] = workers
                    self._contest.give(job, workers)


def _scan(groups: list[_Group]) -> _Group:
    """The champion, by one scan over the shortest job of each group."""
    in_order = sorted([(group.shortest(), group) for group in groups])
    champion = in_order[0][1]
    for _, group in in_order:
        if group.step.lacks > champion.step.gains:
            champion = group
    return champion


def _unrivalled(groups: list[_Group]) -> list[_Group]:
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
