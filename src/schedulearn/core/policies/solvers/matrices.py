"""How many workers of each job on each node: matrices that mate and change, the better ones staying.

As Pollux searches. Matrices of workers, with a row for each job and a column for each node, in an array of many.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

LEAST = 0.01  # what a job without workers counts, of what its equal share would bring: all should have some
_FINEST = 2.0  # decimal powers between the most changes and the fewest
_POWER = -1.0  # of the mean over jobs: the smaller, the fairer


class Player(NamedTuple):
    """One job."""

    present: Sequence[int]  # its workers on each node
    least: int
    most: int
    slots: float  # of each worker
    together: Sequence[float]  # what 0, 1, 2, … workers bring, of what its equal share would, on as few nodes as can be
    apart: Sequence[float]  # the same on more nodes
    kept: float  # the part of it that is left if it is restarted for another size
    secure: bool  # whether it may not lose all its workers


def search(
    players: Sequence[Player], capacity: Sequence[float], population: int, generations: int, seed: int
) -> list[list[int]]:
    """The best matrix found: the mean of what all gain is as large as can be, and no node has two jobs that are on
    several nodes."""
    import numpy as np  # only here: the service must not load it at every start

    rng = np.random.default_rng(seed)
    world = _World(np, players, capacity)
    people = np.repeat(world.present[None], population, axis=0)
    people[1:] = world.repaired(world.changed(people[1:], rng), rng)
    scores = world.scores(people)
    for _ in range(generations):
        parents = rng.integers(population, size=(4, population))  # the better of two, twice
        mothers, fathers = (np.where(scores[a] >= scores[b], a, b) for a, b in (parents[:2], parents[2:]))
        inherits = rng.random((population, len(players), 1)) < rng.random((population, 1, 1))
        children = world.changed(np.where(inherits, people[mothers], people[fathers]), rng)
        children = world.repaired(children, rng)
        people, scores = np.concatenate((people, children)), np.concatenate((scores, world.scores(children)))
        fittest = np.argsort(-scores, kind="stable")[:population]
        people, scores = people[fittest], scores[fittest]
    best: list[list[int]] = people[int(np.argmax(scores))].tolist()
    return best


class _World:
    """What there is, as arrays."""

    def __init__(self, np: Any, players: Sequence[Player], capacity: Sequence[float]) -> None:
        self._np = np
        self.present = np.array([player.present for player in players], dtype=np.int64)
        self._sizes = self.present.sum(axis=1)
        self._capacity = np.array(capacity, dtype=float)
        self._least = np.array([player.least for player in players])
        self._most = np.array([player.most for player in players])
        self._slots = np.array([player.slots for player in players])
        ways = ([player.together for player in players], [player.apart for player in players])
        longest = max(len(player.together) for player in players)
        self._gains = np.array([[_filled(gains, longest) for gains in way] for way in ways])
        self._secure = np.array([player.secure for player in players])
        self._kept = np.array([player.kept for player in players])
        self._room = np.floor(self._capacity[None] / self._slots[:, None]).astype(np.int64)  # by job and node
        self._largest = np.maximum(1, self._room.max(axis=1))
        self._numbers = np.arange(len(players))

    def changed(self, people: Any, rng: Any) -> Any:
        """Here and there another number of workers: of some one for each job, of others hardly any."""
        rate = 10.0 ** rng.uniform(-_FINEST, 0.0, size=(len(people), 1, 1)) / people.shape[2]
        hit = rng.random(people.shape) < rate
        return self._np.where(hit, rng.integers(0, self._room[None] + 1, size=people.shape), people)

    def repaired(self, people: Any, rng: Any) -> Any:
        """Within the bounds of jobs and nodes, and at most one job on a node that is on several."""
        np = self._np
        lots = rng.random(people.shape[:2])
        spread = (people > 0).sum(axis=2) > 1
        rank = np.where((people > 0) & spread[:, :, None], lots[:, :, None], -1.0)
        people = np.where((rank < 0) | (rank == rank.max(axis=1, keepdims=True)), people, 0)
        turn = np.argsort(lots, axis=1)[:, :, None]
        needs = np.take_along_axis(people, turn, axis=1)
        slots = self._slots[turn]
        before = (needs * slots).cumsum(axis=1) - needs * slots
        room = np.floor(np.maximum(0.0, self._capacity - before) / slots + 1e-9).astype(np.int64)
        fits = np.empty_like(people)
        np.put_along_axis(fits, turn, np.minimum(needs, room), axis=1)
        over = np.maximum(0, self._most[None, :, None] - (fits.cumsum(axis=2) - fits))
        fits = np.minimum(fits, over)
        return fits * (fits.sum(axis=2) >= self._least)[:, :, None]

    def scores(self, people: Any) -> Any:
        np = self._np
        sizes, nodes = people.sum(axis=2), (people > 0).sum(axis=2)
        apart = nodes > -(-sizes // self._largest)
        gains = self._gains[apart.astype(np.int64), self._numbers, np.minimum(sizes, self._gains.shape[2] - 1)]
        gains = np.where((self._sizes > 0) & (sizes != self._sizes), gains * self._kept, gains)
        found = (np.maximum(gains, LEAST) ** _POWER).mean(axis=1) ** (1 / _POWER)
        return np.where((self._secure & (sizes == 0)).any(axis=1), -1.0, found)  # as it is now is always allowed


def _filled(values: Sequence[float], length: int) -> list[float]:
    """More workers bring nothing more."""
    return [*values, *[values[-1]] * (length - len(values))]
