"""The figures of a comparison as a table for people: one unit for each column, and which value is the best."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Summary = Mapping[str, Any]

_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))


@dataclass(frozen=True, slots=True)
class Figure:
    """One column."""

    key: str  # in a summary
    title: str
    kind: str  # time | share | count
    best: Callable[[Sequence[float]], float] | None = min  # None: no value is better than another
    always: bool = True  # shown even where it is 0 for all


FIGURES = (
    Figure("avg_jct", "avg JCT", "time"),
    Figure("p50_jct", "p50", "time"),
    Figure("p95_jct", "p95", "time"),
    Figure("p99_jct", "p99", "time"),
    Figure("avg_wait", "avg wait", "time"),
    Figure("makespan", "makespan", "time"),
    Figure("utilization", "used", "share", max),
    Figure("preemptions", "pre-empted", "count"),
    Figure("migrations", "moved", "count", always=False),
    Figure("migration_seconds", "lost moving", "time", always=False),
    Figure("resizes", "resized", "count", always=False),
    Figure("missed_deadlines", "missed", "count", always=False),
    Figure("lost_work", "lost work", "time", always=False),
    Figure("wall_seconds", "took", "time", None),
)


@dataclass(frozen=True, slots=True)
class ColumnOfFigures:
    title: str  # with its unit
    texts: Sequence[str]
    best: Sequence[bool]  # which of them are


def table(summaries: Sequence[Summary]) -> list[ColumnOfFigures]:
    """The columns that say something about these results."""
    columns = []
    for figure in FIGURES:
        values = [float(summary[figure.key]) for summary in summaries]
        if (
            figure.always
            or any(values)
            or (figure.key == "missed_deadlines" and any(s["deadlines"] for s in summaries))
        ):
            columns.append(_column(figure, values, [bool(summary["completed"]) for summary in summaries]))
    return columns


def _column(figure: Figure, values: Sequence[float], ran: Sequence[bool]) -> ColumnOfFigures:
    """A policy under which nothing completed has no figure, and is never the best."""
    known = [value for value, did in zip(values, ran, strict=True) if did]
    title, texts = _texts(figure, values, known)
    best = figure.best(known) if figure.best and len(set(known)) > 1 else None
    return ColumnOfFigures(
        title,
        [text if did else "–" for text, did in zip(texts, ran, strict=True)],
        [did and value == best for value, did in zip(values, ran, strict=True)],
    )


def _texts(figure: Figure, values: Sequence[float], known: Sequence[float]) -> tuple[str, list[str]]:
    if figure.kind == "count":
        return figure.title, [f"{value:,.0f}" for value in values]
    if figure.kind == "share":
        return f"{figure.title} (%)", [f"{100 * value:.1f}" for value in values]
    seconds, unit = unit_for(known)
    return f"{figure.title} ({unit})", [_three(value / seconds) for value in values]


def unit_for(values: Sequence[float]) -> tuple[float, str]:
    """The largest unit in which the middle of the times that are not 0 is at least 1: one glance compares them."""
    middle = statistics.median([value for value in values if value > 0] or [0.0])
    return next(((seconds, unit) for seconds, unit in _UNITS if middle >= seconds), _UNITS[-1])


def _three(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.2f}"


def estimates_in_words(estimates: Mapping[str, Any]) -> str:
    """Which durations the policy was given, and how far off they were."""
    if estimates.get("source") == "oracle":
        return "true durations (--oracle)"
    if estimates.get("source") != "history":
        return "none needed"
    more = f"; {estimates['unknown']:,} jobs came before anything was known" if estimates.get("unknown") else ""
    if estimates.get("by_curve"):
        error = f"{100 * estimates['curve_error']:.0f} %"
        more += f"; for {estimates['by_curve']:,} also by their learning curves, half of those off by more than {error}"
    if not estimates.get("count"):
        return f"estimates from earlier jobs{more}"
    return (
        f"estimates from earlier jobs: half of them off by more than {100 * estimates['median_error']:.0f} %, "
        f"the middle one {estimates['bias']:.2g} × the truth, "
        f"{100 * estimates['within_range']:.0f} % of the truths inside the estimated range{more}"
    )
