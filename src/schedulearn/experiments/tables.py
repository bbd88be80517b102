"""The tables of an experiment: published against ours, and every policy against the baseline."""

from collections.abc import Iterator
from typing import NamedTuple

from schedulearn.experiments.measures import Paired, Value, average, makespan, measured, paired, title_of, unit_of
from schedulearn.experiments.runner import Outcome
from schedulearn.experiments.types import Figure


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


def comparisons(outcome: Outcome) -> Iterator[Comparison]:
    base = outcome.base
    before, ends = [average(run) for run in base], [makespan(run) for run in base]
    for variant in outcome.experiment.variants[1:]:
        runs = outcome.runs[variant.label]
        after, late = [average(run) for run in runs], [makespan(run) for run in runs]
        worst = max(b / a for a, b in zip(ends, late, strict=True))
        yield Comparison(
            variant.label,
            sum(after) / len(after),
            paired(before, after),
            sum(late) / len(late),
            paired(ends, late),
            worst,
        )


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
    return f"{off:+.1f} points" if unit in ("%", "%-points") else f"{off:+.1f}"


def _words(value: float, unit: str) -> str:
    ending = {"": "", "%-points": " %", "jobs": ""}.get(unit, f" {unit}")
    return _number(value, unit) + ending


def _number(value: float, unit: str) -> str:
    if unit == "%":
        return f"{value + 0.0:+.1f}"
    return f"{value:.2f}" if unit == "" else f"{value:,.1f}"
