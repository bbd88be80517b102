"""Who should be where, as a small problem of its own: what the solvers share.

Jobs and nodes are known by their positions here, and everything is counted in whole slots. All workers of all jobs
must get a place. Of two assignments the better one has fewer pairs of a job's workers on different nodes; of those
alike in this, the one that moves fewer workers; of those, the one whose free slots lie closer together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Spread = Mapping[int, int]  # how many workers of a job are on which node; only nodes that have some
Assignment = tuple[Spread, ...]  # one for each job


@dataclass(frozen=True, slots=True)
class Piece:
    """A job, as far as it matters where it is."""

    workers: int
    slots: int = 1  # of one worker
    now: Spread = field(default_factory=dict)  # where its workers are at present; empty if it has none


@dataclass(frozen=True, slots=True)
class Problem:
    jobs: tuple[Piece, ...]
    capacity: tuple[int, ...]  # slots of each node, without what is held by anybody else than these jobs


class Score(NamedTuple):
    """What an assignment costs; smaller is better, compared in turn."""

    cross: int  # pairs of workers of one job that are on different nodes
    moved: int  # workers that are no longer where they were
    fragmentation: int  # pairs of free slots that are on different nodes


# --- what an assignment costs


def score(problem: Problem, assignment: Assignment) -> Score:
    cross = sum(cross_pairs(spread) for spread in assignment)
    moved = sum(moved_workers(job, spread) for job, spread in zip(problem.jobs, assignment, strict=True))
    return Score(cross, moved, fragmentation(free_slots(problem, assignment)))


def cross_pairs(spread: Spread) -> int:
    workers = sum(spread.values())
    return (workers * workers - sum(n * n for n in spread.values())) // 2


def moved_workers(job: Piece, spread: Spread) -> int:
    """A job that grows or shrinks moves only as many workers as it could have kept."""
    kept = sum(min(n, job.now.get(node, 0)) for node, n in spread.items())
    return min(job.workers, sum(job.now.values())) - kept


def fragmentation(free: Sequence[int]) -> int:
    whole = sum(free)
    return (whole * whole - sum(n * n for n in free)) // 2


def free_slots(problem: Problem, assignment: Assignment) -> list[int]:
    """What stays free on each node; below 0 where there is not enough."""
    free = list(problem.capacity)
    for job, spread in zip(problem.jobs, assignment, strict=True):
        take(free, job, spread)
    return free


def fits(free: Sequence[int], job: Piece, spread: Spread) -> bool:
    return all(n * job.slots <= free[node] for node, n in spread.items())


def take(free: list[int], job: Piece, spread: Spread, times: int = 1) -> None:
    """Take its slots from what is free; `times=-1` gives them back."""
    for node, workers in spread.items():
        free[node] -= times * workers * job.slots


# --- where to begin


def tightest(job: Piece, free: Sequence[int]) -> dict[int, int] | None:
    """The best spread for one job that is nowhere yet, or None if it does not fit.

    Nodes with most room are filled until the rest fits on one node; it goes where it fits tightest. Nothing beats this
    in pairs across nodes: any other spread has smaller parts. The parts given, tight nodes leave the least scattered.
    """
    by_room = sorted(range(len(free)), key=lambda n: (-(free[n] // job.slots), free[n], n))
    spread: dict[int, int] = {}
    left = job.workers
    for i, node in enumerate(by_room):
        room = free[node] // job.slots
        if room >= left:
            able = (n for n in by_room[i:] if free[n] // job.slots >= left)
            spread[min(able, key=lambda n: (free[n], n))] = left
            return spread
        if room <= 0:
            break
        spread[node] = room
        left -= room
    return None


def best_fit_decreasing(problem: Problem) -> Assignment | None:
    """The jobs that need most go first, each where it fits tightest. None if that leaves one without a place, which
    with workers of several slots may happen although there is a way."""
    free = list(problem.capacity)
    spreads: dict[int, Spread] = {}
    for number in largest_first(problem):
        job = problem.jobs[number]
        spread = tightest(job, free)
        if spread is None:
            return None
        take(free, job, spread)
        spreads[number] = spread
    return tuple(spreads[number] for number in range(len(problem.jobs)))


def as_it_is(problem: Problem) -> Assignment | None:
    """Everybody stays; None if somebody has no place yet, changes its size, or may not stay."""
    present = tuple(job.now for job in problem.jobs)
    complete = all(sum(job.now.values()) == job.workers for job in problem.jobs)
    return present if complete and min(free_slots(problem, present), default=0) >= 0 else None


def largest_first(problem: Problem) -> list[int]:
    jobs = problem.jobs
    return sorted(range(len(jobs)), key=lambda j: (-jobs[j].workers * jobs[j].slots, j))


# --- what can be hoped for


def lower_bound(jobs: Sequence[Piece], free: Sequence[int]) -> Score | None:
    """No way to place all these jobs costs less; None if they cannot all be placed.

    Each job is looked at as if it were alone. For a single job that is nowhere yet the bound is reached.
    """
    if len(jobs) == 1 and not jobs[0].now:
        return _least_for_one(jobs[0], free)
    if sum(job.workers * job.slots for job in jobs) > sum(free):
        return None
    cross, moved, seen = 0, 0, dict[tuple[int, int], int | None]()
    for job in jobs:
        kind = (job.workers, job.slots)
        if kind not in seen:
            seen[kind] = least_cross(job.workers, [n // job.slots for n in free])
        least = seen[kind]
        if least is None:
            return None
        cross += least
        moved += _least_moved(job, free)
    return Score(cross, moved, _least_fragmentation(free, sum(job.workers * job.slots for job in jobs)))


def least_cross(workers: int, rooms: Sequence[int], parts: Sequence[int] = ()) -> int | None:
    """The fewest pairs across nodes for so many workers on nodes with such rooms, besides the parts given before."""
    squares, left = sum(n * n for n in parts), workers
    for room in sorted(rooms, reverse=True):
        part = min(room, left)
        squares += part * part
        left -= part
    whole = workers + sum(parts)
    return (whole * whole - squares) // 2 if left <= 0 else None


def _least_for_one(job: Piece, free: Sequence[int]) -> Score | None:
    spread = tightest(job, free)
    if spread is None:
        return None
    after = list(free)
    take(after, job, spread)
    return Score(cross_pairs(spread), 0, fragmentation(after))


def _least_moved(job: Piece, free: Sequence[int]) -> int:
    could_stay = sum(min(n, free[node] // job.slots) for node, n in job.now.items())
    return max(0, min(job.workers, sum(job.now.values())) - could_stay)


def _least_fragmentation(free: Sequence[int], slots: int) -> int:
    """As if the slots could be taken one by one: from where least is free."""
    after = sorted(free)
    for i, n in enumerate(after):
        part = min(n, slots)
        after[i] -= part
        slots -= part
    return fragmentation(after)
