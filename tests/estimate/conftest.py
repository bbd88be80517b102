"""Measured step times of real models, where the public traces lie beside the project."""

import csv
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

PROFILES = Path(__file__).parents[3] / "shared" / "traces" / "pollux" / "profiles"

StepTime = Callable[[str, int], float | None]  # (placement, local batch) -> seconds


@pytest.fixture
def profile() -> Callable[[str], StepTime]:
    """For a model: the seconds of a step by placement ("44": two nodes with 4 workers each) and local batch."""
    if not PROFILES.is_dir():
        pytest.skip("the pollux profiles are not here (../shared/traces)")
    return _read


def _read(model: str) -> StepTime:
    times: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with open(PROFILES / model / "placements.csv", newline="") as file:
        for row in csv.DictReader(file):
            times[row["placement"]].append((float(row["local_bsz"]), float(row["step_time"])))

    def step_time(placement: str, batch: float) -> float | None:
        points = sorted(times[placement])
        for (x0, y0), (x1, y1) in pairwise(points):
            if x0 <= batch <= x1:
                return y0 + (y1 - y0) * (batch - x0) / (x1 - x0)
        return None

    return step_time
