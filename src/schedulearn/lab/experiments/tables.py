"""The tables of an experiment: published against ours, and every policy against the baseline."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from schedulearn.lab.experiments.measures import (
    Value,
    average,
    energy,
    makespan,
    measured,
    title_of,
    unit_of,
)
from schedulearn.lab.experiments.runner import Outcome
from schedulearn.lab.experiments.runs import Run
from schedulearn.lab.experiments.types import OURS, OURS_TOLD, Figure
from schedulearn.lab.report.paired import Paired, interval, paired

_OURS_AGAINST = {OURS.label: "ours against it, nobody announces", OURS_TOLD.label: "and if all do"}


class Row(NamedTuple):
    """One figure, in words."""

    measure: str
    policy: str
    published: str
    ours: str  # mean and range over the seeds
    difference: str
    why: str


class Comparison(NamedTuple):
    """One policy against the baseline, over all seeds."""

    policy: str
    average: float  # seconds
    average_change: Paired
    makespan: float
    makespan_change: Paired
    worst_makespan: float  # the largest of all seeds, relative to the baseline's


def rows(outcome: Outcome) -> list[Row]:
    return [_row(outcome, figure) for figure in outcome.experiment.figures]


def both(outcome: Outcome) -> list[tuple[Row, str]]:
    """The rows of a live run, each with the simulated figure."""
    found = rows(outcome)
    beside = [row.ours for row in rows(outcome.simulated)] if outcome.simulated else [""] * len(found)
    return list(zip(found, beside, strict=True))


def comparisons(outcome: Outcome) -> Iterator[Comparison]:
    """Of all policies but the baseline; none where there are no jobs to compare."""
    if outcome.base[0].jobs:
        yield from (_compared(outcome, variant.label) for variant in outcome.experiment.variants[1:])


def _compared(outcome: Outcome, label: str) -> Comparison:
    runs = outcome.runs[label]
    before, ends = [average(run) for run in outcome.base], [makespan(run) for run in outcome.base]
    after, late = [average(run) for run in runs], [makespan(run) for run in runs]
    return Comparison(
        label,
        sum(after) / len(after),
        paired(before, after),
        sum(late) / len(late),
        paired(ends, late),
        max(b / a for a, b in zip(ends, late, strict=True)),
    )


def markdown(outcome: Outcome) -> str:
    """All policies in one small table, ours against each of the others, seed by seed."""
    lines = [f"### {outcome.experiment.name}", "", outcome.experiment.about, ""]
    if not outcome.base[0].jobs:
        return "\n".join([*lines, *_measured_lines(outcome)]) + "\n\n"
    head = ["policy", "average (s)", "change", "makespan (s)", "change", "worst seed"]
    is_metered = all(energy(run) is not None for runs in outcome.runs.values() for run in runs)
    head += ["energy of a job (J)"] if is_metered else []
    ours = {words: outcome.runs[label] for label, words in _OURS_AGAINST.items() if label in outcome.runs}
    cells = [
        [
            *_against(outcome, label),
            *([_energy_words(runs)] if is_metered else []),
            *(_change(runs, mine) for mine in ours.values()),
        ]
        for label, runs in outcome.runs.items()
    ]
    head += list(ours)
    lines += [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in cells)]) + "\n\n"


def _measured_lines(outcome: Outcome) -> list[str]:
    """Where there are no jobs to compare: each measure, by policy."""
    labels = list(outcome.runs)
    cells: dict[str, dict[str, str]] = {}
    for row in rows(outcome):
        cells.setdefault(row.measure, {})[row.policy] = row.ours
    body = [
        f"| {measure} | {' | '.join(found.get(label, '') for label in labels)} |" for measure, found in cells.items()
    ]
    return [f"|  | {' | '.join(labels)} |", "|---|" + "---:|" * len(labels), *body]


def _against(outcome: Outcome, label: str) -> list[str]:
    """One policy: mean over the seeds, change against the baseline, the largest makespan relative to the baseline's."""
    one, is_baseline = _compared(outcome, label), label == outcome.experiment.baseline.label
    average_change, makespan_change = (
        "" if is_baseline else interval(change) for change in (one.average_change, one.makespan_change)
    )
    means = f"{one.average:,.1f}", average_change, f"{one.makespan:,.1f}", makespan_change
    return [label, *means, f"{one.worst_makespan:.3f}"]


def _energy_words(runs: Sequence[Run]) -> str:
    return f"{sum(energy(run) or 0.0 for run in runs) / len(runs):,.0f}"


def _change(runs: Sequence[Run], ours: Sequence[Run]) -> str:
    """Of the average, from another policy to ours."""
    return "" if runs is ours else interval(paired([average(run) for run in runs], [average(run) for run in ours]))


def _row(outcome: Outcome, figure: Figure) -> Row:
    value, unit = measured(figure.measure, outcome.base, outcome.runs[figure.variant]), unit_of(figure.measure)
    return Row(
        title_of(figure.measure) + (" (change)" if unit == "%" else ""),
        figure.variant,
        published_words(figure, unit),
        f"{_words(value.mean, unit)} ({_number(value.low, unit)} … {_number(value.high, unit)})",
        _difference(figure, value, unit),
        figure.why or outcome.experiment.why,
    )


def published_words(figure: Figure, unit: str) -> str:
    if figure.published is None:
        return "–"
    if isinstance(figure.published, tuple):
        low, high = figure.published
        return f"{_number(low, unit)} … {_words(high, unit)}"
    return _words(figure.published, unit)


def _difference(figure: Figure, value: Value, unit: str) -> str:
    """To the published value; to the nearer end of a published range."""
    if figure.published is None:
        return "–"
    published = figure.published
    low, high = published if isinstance(published, tuple) else (published, published)
    off = value.mean - min(max(value.mean, low), high)
    if unit == "s" and low:
        return f"{100 * off / low:+.1f} %"
    return f"{off:+.1f}" + {"%": " points", "%-points": " points", "s": " s"}.get(unit, "")


def _words(value: float, unit: str) -> str:
    ending = {"": "", "%-points": " %", "jobs": ""}.get(unit, f" {unit}")
    return _number(value, unit) + ending


def _number(value: float, unit: str) -> str:
    if unit == "%":
        return f"{value + 0.0:+.1f}"
    return f"{value:.2f}" if unit == "" else f"{value:,.1f}"
