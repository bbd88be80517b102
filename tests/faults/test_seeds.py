"""Chance thinks of what we did not: seeded schedules of faults, and what must be true after each.

`python -m bench faults --seeds 1000` plays more of them, and makes one that fails as small as it gets.
"""

import pytest

from support.faults.schedule import made
from support.faults.shrink import played

SEEDS, AT_ONCE = 50, 5
FOUND = (535, 1036, 1638)  # failed once, and what they found is mended


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_whatever_happens_every_job_ends_once_and_as_it_should(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        assert played(made(seed)) == [], f"seed {seed}: python -m bench faults --first {seed} --seeds 1"


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_stays_mended(seed: int) -> None:
    assert played(made(seed)) == []
