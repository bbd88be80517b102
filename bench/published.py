"""The published experiments on shared machines, over 20 seeds: a table of each, and our own policy against the others,
first where nobody announces steps, then where all do. All of it is written into docs/results.md.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.figures import Figures, between_marks
from schedulearn.lab.experiments.catalogue import CATALOGUE
from schedulearn.lab.experiments.measures import average, makespan
from schedulearn.lab.experiments.runner import Outcome, run_simulated
from schedulearn.lab.experiments.runs import Run
from schedulearn.lab.experiments.tables import markdown
from schedulearn.lab.experiments.types import OURS, OURS_TOLD
from schedulearn.lab.report.paired import Paired, interval, paired

PAGE = Path(__file__).parent.parent / "docs" / "results.md"
_BEGIN, _END = "<!-- table: python -m bench published -->\n", "<!-- end of table: ours -->"
_SEEDS = 20
_ORIGINALS = ("flowcon", "specon")


def measure() -> Figures:
    figures = Figures("Our own policy against the best published one: average completion time")
    outcomes = []
    for experiment in CATALOGUE.values():
        if experiment.jobs is not None and len(experiment.variants) > 1:
            outcome = run_simulated(replace(experiment, figures=()), _SEEDS)
            _write(outcome)
            outcomes += [outcome] if OURS in experiment.variants else []
    lines = []
    for ours, words in ((OURS, "Nobody announces steps"), (OURS_TOLD, "All announce their steps")):
        lines += [f"**{words}.**", "", *_table(outcomes, ours.label, figures), ""]
    between_marks(PAGE, _BEGIN, _END, "\n".join(lines).rstrip())
    return figures


def _write(outcome: Outcome) -> None:
    """Its section of the page, in place of the one that is there."""
    text, new = PAGE.read_text("utf-8"), markdown(outcome).rstrip("\n") + "\n"
    name = re.escape(outcome.experiment.name)
    text, found = re.subn(rf"### {name}\n.*?(?=\n### |\n## )", lambda _: new, text, count=1, flags=re.DOTALL)
    assert found, f"{PAGE} has no section {outcome.experiment.name}"
    PAGE.write_text(text, "utf-8")


def _table(outcomes: Sequence[Outcome], label: str, figures: Figures) -> list[str]:
    head = [
        "experiment",
        "against the baseline",
        "the best published policy",
        "against it",
        "makespan, worst seed",
        "seeds above 1.01",
    ]
    lines = [f"| {' | '.join(head)} |", "|---|---:|---|---:|---:|---:|"]
    for outcome in outcomes:
        ours, best = outcome.runs[label], _best(outcome)
        change = _change(outcome.runs[best], ours)
        ratios = [makespan(mine) / makespan(base) for mine, base in zip(ours, outcome.base, strict=True)]
        late = sum(ratio > 1.01 for ratio in ratios)
        figures.add(f"{outcome.experiment.name}, {label}", change.mean, "%", against=best)
        cells = [
            interval(_change(outcome.base, ours)),
            best,
            _judged(change),
            f"{max(ratios):.3f}",
            f"{late} of {_SEEDS}",
        ]
        lines.append(f"| {outcome.experiment.name} | {' | '.join(cells)} |")
    return lines


def _best(outcome: Outcome) -> str:
    """The published policy with the shortest average."""
    labels = [one.label for one in outcome.experiment.variants if one.preset in _ORIGINALS]
    return min(labels, key=lambda label: sum(average(run) for run in outcome.runs[label]))


def _change(before: Sequence[Run], after: Sequence[Run]) -> Paired:
    return paired([average(run) for run in before], [average(run) for run in after])


def _judged(change: Paired) -> str:
    """Bold where it does not win beyond chance."""
    words = interval(change)
    return words if change.high < 0 else f"**{words}**"
