"""Random faults from outside, by seed: the real service, workers, databases and engines killed, stopped and cut off.

Each seed is a schedule of its own; what it did and whether everything held is one line of the report.
"""

import sys
from pathlib import Path

from rich.console import Console

from bench.figures import Figures

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))  # where the harness is

from support.outside.run import Outcome, run_seed
from support.outside.worlds import Ground

SEEDS = 50


def measure(seeds: int = SEEDS, first: int = 0) -> Figures:
    """As many seeds, from the first one on."""
    console = Console()
    outcomes = []
    with Ground() as ground:
        for seed in range(first, first + seeds):
            outcomes.append(run_seed(seed, ground))
            _show(console, outcomes[-1])
    figures = Figures(f"Random faults from outside, seeds {first} to {first + seeds - 1}")
    figures.add("seeds after which everything held", sum(not one.problems for one in outcomes))
    figures.add("seeds after which something did not", sum(bool(one.problems) for one in outcomes), aim=0)
    figures.add("the longest seed", max(one.seconds for one in outcomes), "s")
    for outcome in outcomes:
        figures.note(row(outcome))
    return figures


def row(outcome: Outcome) -> str:
    """One line: the seed, what was done, and what came of it."""
    done = ", ".join(f"{what} × {times}" if times > 1 else what for what, times in sorted(outcome.done.items()))
    came = "; ".join(outcome.problems) or (f"left out: {outcome.left_out}" if outcome.left_out else "ok")
    return f"{outcome.seed:>4}  {outcome.variant:<10}  {outcome.seconds:3.0f} s  {done}  →  {came}"


def _show(console: Console, outcome: Outcome) -> None:
    for line in [row(outcome), *(f"        {line}" for line in outcome.story if outcome.problems)]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
