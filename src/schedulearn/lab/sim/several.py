"""Several traces and seeds: each policy on every one of them, and how far it is from a baseline, run by run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schedulearn.lab.report.paired import Paired, interval, paired
from schedulearn.lab.sim.averages import mean
from schedulearn.lab.sim.figures import FAIRNESS, METRICS, Metric, Summary, texts_of
from schedulearn.lab.sim.run import Request, Study, prepare

_KEYS = ("avg_jct", "p99_jct", "makespan", "mean_slowdown", "worst_slowdown")
COMPARED = [metric for metric in (*METRICS, *FAIRNESS) if metric.key in _KEYS]
_PLAIN = {"worst_slowdown": "worst slowdown"}  # where no other slowdown stands before it
IN_WORDS = "difference: the mean over runs, each against the baseline's, with the 95 % interval of Student's t"
_FIRST_SEED = 1


def prepare_all(request: Request, traces: Sequence[str], seeds: int) -> list[Study]:
    """Each trace with so many seeds; once where nothing is drawn by lot, as equal runs would only feign certainty."""
    drawn = {trace: _draws(replace(request, trace=trace), seeds) for trace in traces}
    names = Counter(studies[0].workload.name for studies in drawn.values())
    return [
        study if names[study.workload.name] == 1 else replace(study, workload=replace(study.workload, name=trace))
        for trace, studies in drawn.items()
        for study in studies
    ]


def _draws(request: Request, seeds: int) -> list[Study]:
    if seeds == 1:
        return [prepare(request)]
    first = _FIRST_SEED if request.seed is None else request.seed
    study = prepare(replace(request, seed=first))
    others = range(first + 1, first + seeds) if study.by_lot else ()
    return [study, *(prepare(replace(request, seed=seed)) for seed in others)]


@dataclass(frozen=True, slots=True)
class Row:
    """One policy over all runs."""

    policy: str
    runs: int  # in which some job completed
    means: Mapping[str, float]  # by the metric's key
    changes: Mapping[str, Paired]  # against the baseline; none of the baseline itself

    def as_json(self) -> dict[str, Any]:
        changes = {key: change.as_json() for key, change in self.changes.items()}
        return {"policy": self.policy, "runs": self.runs, "means": self.means, "changes": changes}


def rows(figures: Sequence[Summary], baseline: str) -> list[Row]:
    """From the figures of all runs. A pair counts where both completed equally many jobs: else averages say nothing."""
    ran = [one for one in figures if one["completed"]]
    base = {(one["trace"], one["seed"]): one for one in ran if one["policy"] == baseline}
    made = []
    for policy in dict.fromkeys(one["policy"] for one in ran):
        own = [one for one in ran if one["policy"] == policy]
        pairs = [(base.get((one["trace"], one["seed"])), one) for one in own if policy != baseline]
        alike = [(b, a) for b, a in pairs if b and b["completed"] == a["completed"]]
        means = {metric.key: mean([one[metric.key] for one in own]) for metric in COMPARED}
        made.append(Row(policy, len(own), means, _changes(alike)))
    return made


def _changes(pairs: Sequence[tuple[Summary, Summary]]) -> dict[str, Paired]:
    if not pairs:
        return {}
    return {m.key: paired([b[m.key] for b, _ in pairs], [a[m.key] for _, a in pairs]) for m in COMPARED}


def as_json(figures: Sequence[Summary], baseline: str) -> dict[str, Any]:
    """What `compare --json` prints where there are several runs."""
    return {
        "baseline": baseline,
        "policies": [row.as_json() for row in rows(figures, baseline)],
        "traces": [
            {"trace": trace, "policies": [row.as_json() for row in rows(own, baseline)]}
            for trace, own in by_trace(figures).items()
        ],
        "runs": list(figures),
    }


def by_trace(figures: Sequence[Summary]) -> dict[str, list[Summary]]:
    found: dict[str, list[Summary]] = {}
    for one in figures:
        found.setdefault(one["trace"], []).append(one)
    return found


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    sure: int = 0  # -1, 1: less or more than the baseline's beyond chance


def table(found: Sequence[Row]) -> tuple[list[str], list[list[Cell]]]:
    """Heads and lines: each metric's mean, and its change."""
    heads, columns = ["policy", "runs"], [[Cell(row.policy) for row in found], [Cell(str(row.runs)) for row in found]]
    for metric in COMPARED:
        values = [row.means[metric.key] for row in found]
        title, texts = texts_of(titled(metric), values, values)
        heads += [title, "difference"]
        columns += [[Cell(text) for text in texts], [_difference(row.changes.get(metric.key)) for row in found]]
    return heads, [list(line) for line in zip(*columns, strict=True)]


def titled(metric: Metric) -> Metric:
    return replace(metric, title=_PLAIN.get(metric.key, metric.title))


def _difference(change: Paired | None) -> Cell:
    if change is None:
        return Cell("")
    return Cell(interval(change), -1 if change.known and change.high < 0 else int(change.known and change.low > 0))
