"""Assignments that mate and change, the better ones staying: a good one in a set number of steps."""

import random
from collections.abc import Sequence

from schedulearn.core.policies.solvers import hungarian
from schedulearn.core.policies.solvers.problem import (
    Assignment,
    Piece,
    Problem,
    Score,
    Spread,
    as_it_is,
    fits,
    largest_first,
    lower_bound,
    score,
    take,
    tightest,
)

_CHANGED = 2.0  # jobs that a child places anew, on average, whatever its parents say

Scored = tuple[Score, Assignment]


def solve(problem: Problem, seed: int = 0, population: int = 20, generations: int = 30) -> Assignment | None:
    """Begins with everybody where they are and with what packing finds; the best so far is never lost."""
    hoped = lower_bound(problem.jobs, problem.capacity)
    if hoped is None:
        return None
    people = _fittest(_scored(problem, [as_it_is(problem), hungarian.solve(problem)]), population)
    if people and people[0][0] == hoped:
        return people[0][1]
    rng = random.Random(seed)
    people = _fittest([*people, *_strangers(problem, rng, population)], population)
    for _ in range(generations):
        if not people or people[0][0] == hoped:
            break
        children = [_child(problem, rng, _pick(rng, people), _pick(rng, people)) for _ in range(population)]
        people = _fittest([*people, *_scored(problem, children)], population)
    return people[0][1] if people else None


def _strangers(problem: Problem, rng: random.Random, population: int) -> list[Scored]:
    nobody: Assignment = tuple({} for _ in problem.jobs)
    return _scored(problem, [_child(problem, rng, nobody, nobody) for _ in range(population)])


def _scored(problem: Problem, found: Sequence[Assignment | None]) -> list[Scored]:
    return [(score(problem, assignment), assignment) for assignment in found if assignment is not None]


def _fittest(people: list[Scored], population: int) -> list[Scored]:
    return sorted(people, key=_score)[:population]


def _score(scored: Scored) -> Score:
    return scored[0]


def _pick(rng: random.Random, people: list[Scored]) -> Assignment:
    """The better of two."""
    return min(rng.choice(people), rng.choice(people), key=_score)[1]


def _child(problem: Problem, rng: random.Random, mother: Assignment, father: Assignment) -> Assignment | None:
    """Each job is where one of its parents has it; those that find no room there, and a few others, go anew."""
    free = list(problem.capacity)
    spreads: dict[int, Spread] = {}
    numbers = list(range(len(problem.jobs)))
    rng.shuffle(numbers)
    for number in numbers:
        spread = rng.choice((mother, father))[number]
        if spread and rng.random() * len(numbers) >= _CHANGED and fits(free, problem.jobs[number], spread):
            spreads[number] = spread
            take(free, problem.jobs[number], spread)
    for number in largest_first(problem):
        if number not in spreads:
            anew = _anew(problem.jobs[number], rng, free)
            if anew is None:
                return None
            spreads[number] = anew
            take(free, problem.jobs[number], anew)
    return tuple(spreads[number] for number in range(len(problem.jobs)))


def _anew(job: Piece, rng: random.Random, free: Sequence[int]) -> Spread | None:
    """Back to where it is now, anywhere, or where it fits tightest."""
    way = rng.randrange(3)
    if way == 0 and sum(job.now.values()) == job.workers and fits(free, job, job.now):
        return job.now
    if way == 1:
        return _anywhere(job, rng, free)
    return tightest(job, free)


def _anywhere(job: Piece, rng: random.Random, free: Sequence[int]) -> Spread | None:
    """Whole on any node with room for it; else nodes are filled as they come."""
    rooms = [(node, n // job.slots) for node, n in enumerate(free) if n >= job.slots]
    if whole := [node for node, room in rooms if room >= job.workers]:
        return {rng.choice(whole): job.workers}
    rng.shuffle(rooms)
    spread: dict[int, int] = {}
    left = job.workers
    for node, room in rooms:
        if left:
            spread[node] = min(room, left)
            left -= spread[node]
    return None if left else spread
