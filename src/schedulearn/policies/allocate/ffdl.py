"""FfDL: the sum of all speed-ups is as large as it can be."""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any

from schedulearn.domain.job import Job
from schedulearn.domain.speedup import SpeedUp
from schedulearn.policies.stages import Contest

_FORGIVEN = 1e-9
_KEPT = 1e6  # worth more than any speed-up: a running job that may not be stopped keeps its min


class Ffdl:
    """P[j][k] = max over g in {0} ∪ [min, max] of s_j(g) + P[j−1][k−g], over the first jobs of the order.

    Never more jobs than slots take part. Where several ways are equally good, those who come first in the order get
    more. The table is only needed for curves that do not flatten all the way: otherwise to give each worker to the
    job that gains most from it leads to the very same numbers.
    """

    elastic = True

    def allocate(self, contest: Contest) -> float | None:
        jobs = _first_jobs(contest)
        costs, slots = _whole_slots(jobs, contest)
        players = [_player(contest, job, cost) for job, cost in zip(jobs, costs, strict=True)]
        by_gain = _by_gain(players, slots)
        for job, workers in zip(jobs, _by_table(players, slots) if by_gain is None else by_gain, strict=True):
            if workers:
                contest.give(job, workers)
        if len(jobs) >= int(contest.slots):  # else one that comes later may still take part
            for job in contest.waiting():
                contest.refuse(job)
        return None


@dataclass(frozen=True, slots=True)
class _Player:
    """One job as the sums see it."""

    cost: int  # slots, in whole units, of one worker
    least: int
    must_run: bool
    speeds: tuple[float, ...]  # s(min), s(min + 1), …, up to the largest number of workers that brings anything
    flattens: bool  # does each further worker bring less than the one before?


def _player(contest: Contest, job: Job, cost: int) -> _Player:
    must_run = bool(job.spots) and not contest.preemptive
    workers = job.shape.workers
    speeds, flattens = _speeds(contest.facts.speedup(job), workers.min, workers.max)
    return _Player(cost, workers.min, must_run, speeds, flattens and (must_run or workers.min == 1))


@lru_cache(maxsize=4096)
def _speeds(curve: SpeedUp, least: int, most: int) -> tuple[tuple[float, ...], bool]:
    speeds = [curve(n) for n in range(least, most + 1)]
    speeds = speeds[: speeds.index(max(speeds)) + 1]
    gains = [speeds[0] / least, *(b - a for a, b in pairwise(speeds))]
    return tuple(speeds), all(b <= a for a, b in pairwise(gains)) and gains[-1] > 0


def _first_jobs(contest: Contest) -> list[Job]:
    """As many as there are slots; under an order that does not interrupt anybody those who run come first."""
    most, running = int(contest.slots), contest.running()
    if not contest.preemptive:
        return running + list(islice(contest.all_waiting(), max(0, most - len(running))))
    jobs = [(contest.rank(job), job) for job in (*running, *islice(contest.all_waiting(), most))]
    return [job for _, job in sorted(jobs)[:most]]


def _whole_slots(jobs: Sequence[Job], contest: Contest) -> tuple[list[int], int]:
    """What a worker of each job costs and what there is, in units that make all costs whole numbers."""
    costs = [Fraction(contest.cost(job)).limit_denominator(1000) for job in jobs]
    parts = math.lcm(*(cost.denominator for cost in costs))
    whole = [int(cost * parts) for cost in costs]
    unit = math.gcd(*whole) or 1
    return [cost // unit for cost in whole], int(contest.left * parts / unit + _FORGIVEN)


def _by_gain(players: Sequence[_Player], slots: int) -> list[int] | None:
    """Each worker to the job that gains most from it; None where that might not be the best."""
    if not all(player.flattens for player in players) or len({player.cost for player in players}) > 1:
        return None
    sizes = [player.least if player.must_run else 0 for player in players]
    left = slots - sum(size * player.cost for size, player in zip(sizes, players, strict=True))
    if left < 0:
        return None
    offers = [(-_gain(player, sizes[i]), i) for i, player in enumerate(players)]
    heapq.heapify(offers)
    while offers and offers[0][0] < 0 and left >= players[0].cost:
        i = offers[0][1]
        sizes[i] += 1
        left -= players[i].cost
        heapq.heapreplace(offers, (-_gain(players[i], sizes[i]), i))
    return sizes


def _gain(player: _Player, workers: int) -> float:
    """Of one worker more."""
    place = workers - player.least
    if place + 1 >= len(player.speeds):
        return 0.0
    return player.speeds[place + 1] - (player.speeds[place] if workers else 0.0)


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
            better = value > row[cost:] + _FORGIVEN  # sums of the same numbers in another order differ by a hair
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
