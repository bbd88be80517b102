"""Pollux: sizes and places by search, against all that there are, and when it decides."""

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.core.domain.speedup import SpeedUp, assumed_speedup
from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.core.policies.solvers.matrices import LEAST, Player, search
from schedulearn.lab.sim.cluster import parse_cluster
from schedulearn.lab.sim.engine import SimOptions, Simulation
from schedulearn.lab.traces.types import TraceJob, Workload

Matrix = Sequence[Sequence[int]]


def player(
    present: Sequence[int],
    curve: SpeedUp,
    most: int = 4,
    apart: float = 0.8,
    kept: float = 1.0,
    *,
    secure: bool = False,
) -> Player:
    together = [curve(n) / curve(1) for n in range(most + 1)]
    return Player(present, 1, most, 1.0, together, [apart * gain for gain in together], kept, secure)


def is_allowed(matrix: Matrix, players: Sequence[Player], capacity: Sequence[int]) -> bool:
    spread = [row for row in matrix if sum(n > 0 for n in row) > 1]
    return (
        all(sum(column) <= most for column, most in zip(zip(*matrix, strict=True), capacity, strict=True))
        and all(sum(n > 0 for n in column) <= 1 for column in zip(*spread, strict=True))
        and all(0 <= sum(row) <= one.most for row, one in zip(matrix, players, strict=True))
        and all(sum(row) or not one.secure for row, one in zip(matrix, players, strict=True))
    )


def worth(matrix: Matrix, players: Sequence[Player], largest: int) -> float:
    total = 0.0
    for row, one in zip(matrix, players, strict=True):
        size, nodes = sum(row), sum(n > 0 for n in row)
        gain = (one.apart if nodes > -(-size // largest) else one.together)[size]
        kept = one.kept if sum(one.present) and size != sum(one.present) else 1.0
        total += 1 / max(LEAST, gain * kept)
    return len(players) / total


CURVES = [assumed_speedup(4), SpeedUp([1, 1.9, 2.7, 3.4]), SpeedUp([1, 1.1, 1.1, 1.1]), SpeedUp([1, 2, 3, 4])]


@pytest.mark.parametrize("kept", [1.0, 0.5])
def test_it_finds_nearly_the_best_of_all(kept: float) -> None:
    capacity = (3, 3)
    present = [(1, 0), (0, 2), (0, 0)]
    players = [player(row, curve, kept=kept) for row, curve in zip(present, CURVES[1:], strict=True)]
    rows = [row for row in product(range(4), repeat=2) if sum(row) <= 4]
    every = [m for m in product(rows, repeat=3) if is_allowed(m, players, capacity)]
    best = max(worth(matrix, players, 3) for matrix in every)
    found = search(players, capacity, 40, 30, seed=1)
    assert is_allowed(found, players, capacity)
    assert worth(found, players, 3) >= 0.95 * best
    assert search(players, capacity, 40, 30, seed=1) == found


@given(
    st.lists(st.tuples(st.sampled_from(CURVES), st.booleans(), st.floats(0, 1)), min_size=1, max_size=8),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(0, 1000),
)
def test_whatever_it_finds_is_allowed_and_no_worse_than_what_is(
    jobs: list[tuple[SpeedUp, bool, float]], capacity: list[int], seed: int
) -> None:
    free, players = list(capacity), []
    for number, (curve, runs, kept) in enumerate(jobs):
        node = number % len(capacity)
        here = runs and free[node] > 0
        free[node] -= here
        players.append(
            player(
                [int(here and k == node) for k in range(len(capacity))], curve, kept=kept, secure=here and kept > 0.5
            )
        )
    found = search(players, capacity, 10, 5, seed)
    assert is_allowed(found, players, capacity)
    largest = max(capacity)
    assert worth(found, players, largest) >= worth([one.present for one in players], players, largest) - 1e-9


def test_it_decides_every_minute_and_gives_more_to_who_gains_more() -> None:
    jobs = [
        TraceJob("scales", 10.0, 5000.0, 1, workers=(1, 8), speedup=SpeedUp(range(1, 9))),
        TraceJob("does not", 70.0, 5000.0, 1, workers=(1, 8), speedup=SpeedUp([1.0])),
    ]
    options = SimOptions(restart_cost=1.0, timeline=True)
    result = Simulation(Workload("t", jobs), parse_cluster("2x4"), build_policy("pollux"), options).run()
    starts = sorted({(one.start, one.serial) for one in result.segments})
    assert all((at - 10.0) % 60.0 == pytest.approx(0.0, abs=1e-6) for at, _ in starts)
    most = {serial: max(one.workers for one in result.segments if one.serial == serial) for serial in (1, 2)}
    assert most[2] == 1
    assert most[1] >= 4
