"""The best assignment there is, or the best found in so many steps."""

from collections.abc import Iterator
from typing import NamedTuple

from schedulearn.core.policies.solvers import hungarian
from schedulearn.core.policies.solvers.problem import (
    Assignment,
    Problem,
    Score,
    Spread,
    as_it_is,
    cross_pairs,
    largest_first,
    least_cross,
    lower_bound,
    moved_workers,
    score,
    take,
)


class Answer(NamedTuple):
    assignment: Assignment | None  # the best that was found
    proven: bool  # whether there is none better (or, where none was found, none at all)


def solve(problem: Problem, states: int = 20_000) -> Answer:
    """A bound on states and not on time, so that equal problems have equal answers on any machine."""
    search = _Search(problem, states)
    for known in (as_it_is(problem), hungarian.solve(problem)):
        if known is not None:
            search.offer(known)
    proven = search.run()
    return Answer(search.best, proven)


class _Search:
    """Depth first, the largest job first, leaving out what cannot be better than the best so far."""

    def __init__(self, problem: Problem, states: int) -> None:
        self.best: Assignment | None = None
        self._best_score: Score | None = None
        self._problem = problem
        self._states = states  # that may still be explored
        self._order = largest_first(problem)
        self._jobs = [problem.jobs[number] for number in self._order]
        self._free = list(problem.capacity)
        self._chosen: list[Spread] = []  # of the first jobs of the order
        self._cross, self._moved = 0, 0  # of those
        # Who is on a node now, by depth: nodes that differ only in jobs placed already are equal for the rest.
        self._tenants = [
            [(depth, job.now[node]) for depth, job in enumerate(self._jobs) if node in job.now]
            for node in range(len(problem.capacity))
        ]

    def offer(self, assignment: Assignment) -> None:
        found = score(self._problem, assignment)
        if self._best_score is None or found < self._best_score:
            self.best, self._best_score = assignment, found

    def run(self) -> bool:
        """Whether the search came to its end."""
        if not self._may_improve():
            return True
        walk = [self._spreads()]  # for each job on the way down, the spreads that it has not tried yet
        while walk:
            spread = next(walk[-1], None)
            if self._states < 0:
                return False
            if spread is None:
                walk.pop()
                if walk:
                    self._put_back()
                continue
            self._put(spread)
            if self._may_improve() and len(self._chosen) < len(self._jobs):
                walk.append(self._spreads())
            else:
                self._put_back()
        return True

    def _put(self, spread: Spread) -> None:
        job = self._jobs[len(self._chosen)]
        take(self._free, job, spread)
        self._cross += cross_pairs(spread)
        self._moved += moved_workers(job, spread)
        self._chosen.append(spread)
        if len(self._chosen) == len(self._jobs):
            by_number = dict(zip(self._order, self._chosen, strict=True))
            self.offer(tuple(by_number[number] for number in range(len(self._jobs))))

    def _put_back(self) -> None:
        spread = self._chosen.pop()
        job = self._jobs[len(self._chosen)]
        take(self._free, job, spread, times=-1)
        self._cross -= cross_pairs(spread)
        self._moved -= moved_workers(job, spread)

    def _may_improve(self) -> bool:
        least = lower_bound(self._jobs[len(self._chosen) :], self._free)
        if least is None or self._best_score is None:
            return least is not None
        return (self._cross + least.cross, self._moved + least.moved, least.fragmentation) < self._best_score

    def _spreads(self) -> Iterator[Spread]:
        """All ways to place the next job, likely ones first; of ways that differ only in equal nodes, one."""
        depth = len(self._chosen)
        job = self._jobs[depth]
        rooms = [free // job.slots for free in self._free]
        rest = lower_bound(self._jobs[depth + 1 :], self._free)
        rest_cross = rest.cross if rest else 0
        kinds = [(n, tuple(t for t in self._tenants[i] if t[0] >= depth)) for i, n in enumerate(self._free)]
        nodes = sorted(
            (node for node, room in enumerate(rooms) if room > 0),
            # Where most of it is now, then where it fits whole and tight, then where most of it fits.
            key=lambda n: (-job.now.get(n, 0), rooms[n] < job.workers, _tight(rooms[n], job.workers), kinds[n], n),
        )
        parts: dict[int, int] = {}

        def fill(start: int, left: int, last: int) -> Iterator[Spread]:
            """Parts for the nodes from `start` on; `last` is the part of the node before, 0 if it was skipped."""
            if not left:
                yield dict(parts)
                return
            for i in range(start, len(nodes)):
                node, most = nodes[i], min(rooms[nodes[i]], left)
                if i and kinds[node] == kinds[nodes[i - 1]]:
                    most = min(most, last)  # equal nodes: never a larger part after a smaller one
                for part in range(most, 0, -1):
                    self._states -= 1
                    if self._states < 0:
                        return
                    parts[node] = part
                    if self._cross_may_do(left - part, [rooms[n] for n in nodes[i + 1 :]], parts, rest_cross):
                        yield from fill(i + 1, left - part, part)
                    del parts[node]
                last = 0

        return fill(0, job.workers, 0)

    def _cross_may_do(self, left: int, rooms: list[int], parts: Spread, rest_cross: int) -> bool:
        least = least_cross(left, rooms, list(parts.values()))
        if least is None or self._best_score is None:
            return least is not None
        return self._cross + least + rest_cross <= self._best_score.cross


def _tight(room: int, workers: int) -> int:
    return room if room >= workers else -room
