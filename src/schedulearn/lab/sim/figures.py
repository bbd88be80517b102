"""The figures of a comparison as a table for people: one unit for each column, and which value is the best."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedulearn.lab.sim.fairness import STARVED
from schedulearn.wire.words import errors_in_words

Summary = Mapping[str, Any]

_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))


@dataclass(frozen=True, slots=True)
class Metric:
    """One column."""

    key: str  # in a summary
    title: str
    kind: str  # time | share | count | factor
    best: Callable[[Sequence[float]], float] | None = min  # None: no value is better than another
    always: bool = True  # shown even where it is 0 for all


METRICS = (
    Metric("avg_jct", "avg JCT", "time"),
    Metric("p50_jct", "p50", "time"),
    Metric("p95_jct", "p95", "time"),
    Metric("p99_jct", "p99", "time"),
    Metric("avg_wait", "avg wait", "time"),
    Metric("makespan", "makespan", "time"),
    Metric("utilization", "used", "share", max),
    Metric("useful", "useful", "share", max),
    Metric("preemptions", "pre-empted", "count"),
    Metric("migrations", "moved", "count", always=False),
    Metric("migration_seconds", "lost moving", "time", always=False),
    Metric("resizes", "resized", "count", always=False),
    Metric("missed_deadlines", "missed", "count", always=False),
    Metric("lost_work", "lost work", "time", always=False),
    Metric("wall_seconds", "took", "time", None),
)

FAIRNESS = (
    Metric("mean_slowdown", "slowdown", "factor"),
    Metric("p99_slowdown", "p99", "factor"),
    Metric("worst_slowdown", "worst", "factor"),
    Metric("worst_wait", "worst wait", "time"),
    Metric("mean_rho", "fairness ρ", "factor"),
    Metric("worst_rho", "worst ρ", "factor"),
    Metric("starved", "starved", "count", always=False),
)
IN_WORDS = (
    "slowdown: completion time ÷ duration alone; fairness ρ: completion time ÷ what equal shares would have given; "
    f"starved: a ρ above {STARVED:g}, or never finished"
)


@dataclass(frozen=True, slots=True)
class Column:
    title: str  # with its unit
    texts: Sequence[str]
    best: Sequence[bool]  # which of them are


def table(summaries: Sequence[Summary], metrics: Sequence[Metric] = METRICS) -> list[Column]:
    """The columns that say something about these results."""
    columns = []
    for metric in metrics:
        values = [float(summary[metric.key]) for summary in summaries]
        if (
            metric.always
            or any(values)
            or (metric.key == "missed_deadlines" and any(s["deadlines"] for s in summaries))
        ):
            columns.append(_column(metric, values, [bool(summary["completed"]) for summary in summaries]))
    return columns


def _column(metric: Metric, values: Sequence[float], ran: Sequence[bool]) -> Column:
    """A policy under which nothing completed has no figures, and is never the best."""
    known = [value for value, did in zip(values, ran, strict=True) if did]
    title, texts = texts_of(metric, values, known)
    best = metric.best(known) if metric.best and len(set(known)) > 1 else None
    return Column(
        title,
        [text if did else "–" for text, did in zip(texts, ran, strict=True)],
        [did and value == best for value, did in zip(values, ran, strict=True)],
    )


def texts_of(metric: Metric, values: Sequence[float], known: Sequence[float]) -> tuple[str, list[str]]:
    """The title with its unit, and the values; the `known` ones decide on the unit."""
    if metric.kind == "count":
        return metric.title, [f"{value:,.0f}" for value in values]
    if metric.kind == "factor":
        return metric.title, [_three(value) for value in values]
    if metric.kind == "share":
        return f"{metric.title} (%)", [f"{100 * value:.1f}" for value in values]
    seconds, unit = unit_for(known)
    return f"{metric.title} ({unit})", [_three(value / seconds) for value in values]


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
    for source, found in estimates.get("sources", {}).items():
        more += f"; by {source}: {errors_in_words(found)}"
    if not estimates.get("count"):
        return f"estimates from earlier jobs{more}"
    return (
        f"estimates from earlier jobs: half of them off by more than {100 * estimates['median_error']:.0f} %, "
        f"the middle one {estimates['bias']:.2g} × the truth, "
        f"{100 * estimates['within_range']:.0f} % of the truths inside the estimated range{more}"
    )
