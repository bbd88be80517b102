"""FfDL: the sum of all speed-ups is as large as it can be."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.resources import EPSILON
from schedulearn.core.domain.spec import Workers
from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.core.policies.stages import Allocate, Allocation, Facts

_KEPT = 1e6  # worth more than any speed-up: a running job that may not be stopped keeps its min


class Ffdl(Allocate):
    """P[j][k] = max over g in {0} ∪ [min, max] of s_j(g) + P[j−1][k−g], over the first jobs of the order.

    Never more jobs than slots take part. Where several ways are equally good, those who come first in the order get
    more. The table is only needed for curves that do not flatten all the way: otherwise to give each worker to the
    job that gains most from it leads to the very same numbers.
    """

    elastic = True

    def allocate(self, allocation: Allocation) -> float | None:
        jobs = _first_jobs(allocation)
        for yields in (False, True):  # who has reached its target takes part in what the others leave
            slots, taking_part = allocation.left, [job for job in jobs if job.yields is yields]
            while no_place := _give(taking_part, slots, allocation):  # what they would have got goes to the others
                taking_part = [job for job in taking_part if job.id not in no_place]
        if len(jobs) >= int(allocation.slots):  # else one that comes later may still take part
            for job in allocation.waiting():
                allocation.refuse(job)
        return None

    def enough(self, job: Job, facts: Facts) -> int:
        workers = job.shape.workers
        return _player(facts.speedup(job), workers, 1, must_run=False).most


def _give(jobs: Sequence[Job], left: float, allocation: Allocation) -> set[JobId]:
    """Give these jobs what is best for them together; who could not be placed is returned."""
    costs, slots = _whole_slots(jobs, left)
    players = _players(jobs, costs, allocation)
    by_gain = _by_gain(players, slots)
    sizes = zip(jobs, _by_table(players, slots) if by_gain is None else by_gain, strict=True)
    return {job.id for job, workers in sizes if workers and not allocation.give(job, workers)}


class _Player:
    """Jobs that the sums need not tell apart."""

    def __init__(self, curve: SpeedUp, workers: Workers, cost: int, must_run: bool) -> None:
        self.cost = cost  # slots, in whole units, of one worker
        self.least, self.must_run = workers.min, must_run
        speeds = [curve(n) for n in range(workers.min, workers.max + 1)]
        self.speeds = speeds[: speeds.index(max(speeds)) + 1]  # more workers bring nothing
        before = 0.0 if workers.min == 1 else speeds[0] - speeds[0] / workers.min
        gains = [b - a for a, b in pairwise([before, *self.speeds])]
        # Does each further worker bring less than the one before, or at least no more?
        self.flattens = (must_run or workers.min == 1) and all(b <= a for a, b in pairwise(gains))

    @property
    def most(self) -> int:
        return self.least + len(self.speeds) - 1

    def gain(self, workers: int) -> float:
        """Of one worker more; 0 where there is none."""
        place = workers - self.least
        if place + 1 >= len(self.speeds):
            return 0.0
        return self.speeds[place + 1] - (self.speeds[place] if workers else 0.0)


_player = lru_cache(maxsize=4096)(_Player)


def _players(jobs: Sequence[Job], costs: Mapping[float, int], allocation: Allocation) -> list[_Player]:
    keep, speedup = not allocation.preemptive, allocation.facts.speedup
    return [
        _player(
            speedup(job), job.shape.workers, costs[job.shape.slots], keep and bool(job.placements) and not job.yields
        )
        for job in jobs
    ]


def _first_jobs(allocation: Allocation) -> list[Job]:
    """As many as there are slots; under an order that does not interrupt anybody those who run come first."""
    most, secure = int(allocation.slots), allocation.secure()
    known = {job.id for job in secure}
    others = [job for job in allocation.running.in_order() if job.id not in known]
    jobs = [(allocation.rank(job), job) for job in (*others, *islice(allocation.waiting(all_of_them=True), most))]
    return secure + [job for _, job in sorted(jobs)[: max(0, most - len(secure))]]


def _whole_slots(jobs: Sequence[Job], left: float) -> tuple[dict[float, int], int]:
    """What workers cost and what there is, in units that make all costs whole numbers."""
    costs = {cost: Fraction(cost).limit_denominator(1000) for cost in {job.shape.slots for job in jobs}}
    parts = math.lcm(*(cost.denominator for cost in costs.values()))
    unit = math.gcd(*(int(cost * parts) for cost in costs.values())) or 1
    whole = {cost: int(exact * parts) // unit for cost, exact in costs.items()}
    return whole, int(left * parts / unit + EPSILON)


def _by_gain(players: Sequence[_Player], slots: int) -> list[int] | None:
    """Each worker to the job that gains most from it; None where that might not be the best."""
    if len({player.cost for player in players}) > 1 or not all(player.flattens for player in set(players)):
        return None
    sizes = [player.least if player.must_run else 0 for player in players]
    left = slots // players[0].cost - sum(sizes) if players else 0
    groups: dict[tuple[_Player, int], list[int]] = {}  # the places of those who gain the same all the way
    for place, player in enumerate(players):
        groups.setdefault((player, sizes[place]), []).append(place)
    while groups and left > 0:
        best = max(player.gain(size) for player, size in groups)
        if best <= 0:
            break
        raised = {key: groups.pop(key) for key in list(groups) if key[0].gain(key[1]) == best}
        steps = {place: _steps(*key, best) for key, places in raised.items() for place in places}
        for place in sorted(steps):
            more = min(left, steps[place])
            sizes[place] += more
            left -= more
        for (player, _), places in raised.items():
            groups.setdefault((player, sizes[places[0]]), []).extend(places)
    return sizes if left >= 0 else None


def _steps(player: _Player, size: int, gain: float) -> int:
    """How many workers in a row bring just that gain."""
    count = 0
    while player.gain(size + count) == gain:
        count += 1
    return count


def _by_table(players: Sequence[_Player], slots: int) -> list[int]:
    import numpy as np  # only here: the service must not load it at every start

    best = np.zeros(slots + 1)
    table = []
    for player in players:
        row = best - (_KEPT if player.must_run else 0.0)
        chosen = np.zeros(slots + 1, dtype=np.int32)
        for workers, speed in enumerate(player.speeds, player.least):
            cost = workers * player.cost
            if cost > slots:
                break
            value = best[: slots + 1 - cost] + speed
            better = value > row[cost:] + EPSILON  # sums of the same numbers in another order differ by a hair
            row[cost:][better] = value[better]
            chosen[cost:][better] = workers
        table.append(chosen)
        best = row
    return _backtrack(players, table, slots)


def _backtrack(players: Sequence[_Player], table: Sequence[Any], slots: int) -> list[int]:
    sizes = []
    for player, chosen in zip(reversed(players), reversed(table), strict=True):
        sizes.append(int(chosen[slots]))
        slots -= sizes[-1] * player.cost
    return sizes[::-1]
