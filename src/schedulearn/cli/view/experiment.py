"""What `experiment` shows: the list, and how the figures of a run compare with the published ones."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from schedulearn.cli.view.table import Column, Row

if TYPE_CHECKING:
    from schedulearn.lab.experiments.runner import Outcome
    from schedulearn.lab.experiments.types import Experiment


def _where(one: "Experiment") -> str:
    from schedulearn.lab.live.fits import why_not

    if one.jobs is None:
        return "live only"
    return "simulated" if why_not(one) else "both"


def facts(one: "Experiment") -> dict[str, Any]:
    from schedulearn.lab.live.fits import why_not

    return {
        "name": one.name,
        "source": one.source,
        "about": one.about,
        "policies": [variant.label for variant in one.variants],
        "simulated": one.jobs is not None,
        "live": not why_not(one),
    }


COLUMNS = (
    Column("NAME", lambda one: one.name),
    Column("SOURCE", lambda one: one.source, need=90),
    Column("RUNS", _where, need=100),
    Column("WHAT", lambda one: one.about, flex=True, wrap=True, keep=40),
)


def figures(outcome: "Outcome") -> dict[str, Any]:
    from schedulearn.lab.experiments.tables import both, comparisons

    return {
        "experiment": outcome.experiment.name,
        "seeds": outcome.seeds,
        "scale": outcome.scale,
        "how": outcome.how or "simulated",
        "notes": list(outcome.notes),
        "figures": [row._asdict() | ({"simulated": beside} if beside else {}) for row, beside in both(outcome)],
        "policies": [
            {
                **one._asdict(),
                "average_change": one.average_change.as_json(),
                "makespan_change": one.makespan_change.as_json(),
            }
            for one in comparisons(outcome)
        ],
    }


def table(outcome: "Outcome") -> tuple[Sequence[Column], Sequence[Row]]:
    """Published and ours; of a live run with the simulated figures beside."""
    from schedulearn.lab.experiments.tables import both, rows

    heads = ["", "policy", "published", "ours: mean (range)", "difference"]
    found = [list(row)[:5] for row in rows(outcome)]
    if outcome.simulated:
        heads[3:4] = ["simulated", "live: mean (range)"]
        found = [[*row[:3], beside, *row[3:5]] for row, beside in both(outcome)]
    return [Column(head) for head in heads], found


def changes(outcome: "Outcome") -> Iterator[str]:
    """Each policy against the baseline, in words."""
    from schedulearn.lab.experiments.tables import comparisons
    from schedulearn.lab.report.paired import interval

    for one in comparisons(outcome):
        change, ends = interval(one.average_change), interval(one.makespan_change)
        yield f"{one.policy}: average completion {change}, makespan {ends}, with the 95 % interval"
