"""The fault simulator over many seeds: `python -m bench faults --seeds 1000`, on two processes."""

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from rich.console import Console

from bench.figures import Figures

_PROCESSES = 2
_TOLD_EVERY = 10.0  # seconds
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))  # the same simulator as in the tests

from support.faults.schedule import made  # noqa: E402
from support.faults.shrink import played, smaller  # noqa: E402


def measure(seeds: int = 200, first: int = 0) -> Figures:
    """Play so many schedules, from the seed `first` on; those that fail first are printed as small as they get."""
    console, began = Console(stderr=True), time.perf_counter()
    failed: list[tuple[int, list[str]]] = []
    told_at = began
    with ProcessPoolExecutor(_PROCESSES) as pool:
        wanted = range(first, first + seeds)
        for done, (seed, problems) in enumerate(pool.map(_play, wanted, chunksize=5), 1):
            if problems:
                failed.append((seed, problems))
                console.print(f"seed {seed}: {problems[0]}", highlight=False, markup=False)
            if time.perf_counter() - told_at >= _TOLD_EVERY:
                told_at = time.perf_counter()
                console.print(
                    f"{done} of {seeds} seeds, {len(failed)} failed, {told_at - began:.0f} s", highlight=False
                )
    figures = Figures(f"Fault simulator: seeds {first} to {first + seeds - 1}")
    figures.add("schedules that went wrong", len(failed), "", aim=0)
    figures.add("time for each, two at a time", (time.perf_counter() - began) / max(1, seeds), "s")
    for seed, problems in failed[:3]:
        console.print(f"making seed {seed} smaller …", highlight=False)
        figures.note(f"{problems[0]}\n{smaller(made(seed), problems[0])}")
    for seed, problems in failed[3:]:
        figures.note(f"seed {seed}: {problems[0]}")
    return figures


def _play(seed: int) -> tuple[int, list[str]]:
    return seed, played(made(seed))
