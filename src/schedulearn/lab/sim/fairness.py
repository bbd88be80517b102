"""How a policy treats each job: its slowdown, and its end against the end it would have had under equal shares."""

import heapq
import math
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from schedulearn.lab.sim.averages import mean, percentile

SHORTEST = 10.0  # seconds: what is shorter counts as so long, or one saw nothing but the shortest jobs
STARVED = 10.0  # times as long as under equal shares
_MOST_NAMED = 10  # starved jobs
_MOST_USERS = 20
_NOTHING = 1e-9


class Demand(NamedTuple):
    """A job for itself."""

    arrival: float
    duration: float  # alone, at the size that it wants
    slots: float  # that this is
    useful: float = 0.0  # slots that would do as much, if each did as much as one alone
    label: str = ""
    user: str = ""


class Treated(NamedTuple):
    """What became of one job that has completed."""

    serial: int
    label: str
    user: str
    wait: float  # until its first start
    jct: float
    duration: float  # alone, at the size that it wants
    fair: float  # its completion time under equal shares
    used: float  # slot-seconds

    @property
    def slowdown(self) -> float:
        return max(1.0, self.jct / max(SHORTEST, self.duration))

    @property
    def rho(self) -> float:
        """Finish-time fairness: above 1 it would have been better off under equal shares."""
        return max(self.jct, SHORTEST) / max(self.fair, SHORTEST)


def figures(jobs: Sequence[Treated], unfinished: Sequence[str]) -> dict[str, Any]:
    """For a summary. `unfinished`: labels of jobs that never ended."""
    slowdowns = sorted(job.slowdown for job in jobs)
    starved = sorted((job for job in jobs if job.rho > STARVED), key=lambda job: -job.rho)
    names = [*unfinished, *(job.label for job in starved)]
    return {
        "mean_slowdown": mean(slowdowns),
        "p99_slowdown": percentile(slowdowns, 99),
        "worst_slowdown": max(slowdowns, default=0.0),
        "worst_wait": max((job.wait for job in jobs), default=0.0),
        "mean_rho": mean([job.rho for job in jobs]),
        "worst_rho": max((job.rho for job in jobs), default=0.0),
        "starved": len(names),
        "starved_jobs": names[:_MOST_NAMED],
        "users": _users(jobs),
    }


def _users(jobs: Sequence[Treated]) -> list[dict[str, Any]]:
    """Those that used most, first."""
    by_user: dict[str, list[Treated]] = defaultdict(list)
    for job in jobs:
        by_user[job.user].append(job)
    total = sum(job.used for job in jobs) or 1.0
    most_first = sorted(by_user.items(), key=lambda one: (-sum(job.used for job in one[1]), one[0]))
    return [
        {
            "user": user,
            "jobs": len(own),
            "slot_hours": sum(job.used for job in own) / 3600,
            "share": sum(job.used for job in own) / total,
            "avg_jct": mean([job.jct for job in own]),
            "mean_slowdown": mean([job.slowdown for job in own]),
            "mean_rho": mean([job.rho for job in own]),
        }
        for user, own in most_first[:_MOST_USERS]
    ]


@lru_cache(maxsize=4)  # it is the same under all policies
def fair_ends(demands: tuple[Demand, ...], slots: float) -> list[float]:
    """When each would end if all that are there shared the slots equally, none having more than it wants.

    Jobs that want the same number of slots go equally fast, so that only sums for each such number are kept: what one
    that was always there would have done, and the end of each job on that scale.
    """
    ends = [math.inf] * len(demands)
    order = sorted(range(len(demands)), key=lambda k: demands[k].arrival)
    classes: dict[float, list[tuple[float, int]]] = defaultdict(list)  # by slots: heaps of (end on its scale, job)
    done: dict[float, float] = defaultdict(float)  # by slots: that scale, in seconds of work
    now, arrived = 0.0, 0
    while arrived < len(order) or any(classes.values()):
        speeds = _speeds({wants: len(heap) for wants, heap in classes.items() if heap}, slots)
        until = demands[order[arrived]].arrival if arrived < len(order) else math.inf
        for wants, speed in speeds.items():
            until = min(until, now + max(0.0, classes[wants][0][0] - done[wants]) / speed)
        for wants, speed in speeds.items():
            done[wants] += speed * (until - now)
        now = until
        for wants in speeds:
            heap = classes[wants]
            while heap and heap[0][0] <= done[wants] + _NOTHING * max(1.0, done[wants]):
                ends[heapq.heappop(heap)[1]] = now
        while arrived < len(order) and demands[order[arrived]].arrival <= now:
            number = order[arrived]
            wants = demands[number].slots
            heapq.heappush(classes[wants], (done[wants] + demands[number].duration, number))
            arrived += 1
    return ends


def _speeds(present: dict[float, int], slots: float) -> dict[float, float]:
    """Of jobs by the slots that they want: what is left over by those that want less goes to the others."""
    left, jobs = slots, sum(present.values())
    speeds = {}
    for wants in sorted(present):
        share = min(wants, left / jobs)
        speeds[wants] = share / wants if wants > 0 else 1.0
        left -= share * present[wants]
        jobs -= present[wants]
    return speeds
