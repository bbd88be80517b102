"""What is drawn of an experiment, as data: the page and the picture files draw the same."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from schedulearn.lab.experiments.measures import MEASURES, measured
from schedulearn.lab.experiments.runner import Outcome
from schedulearn.lab.experiments.runs import Run, Stay
from schedulearn.lab.report.plots import Line, Point

Named = tuple[str, Sequence[Point]]
_MOMENTS = 240  # at which stacked areas are drawn
_MOST_SERIES = 24  # more cannot be told apart


@dataclass(frozen=True, slots=True)
class Chart:
    name: str  # part of a file's name
    title: str
    lines: Sequence[Line]
    x_title: str
    y_title: str
    stacked: bool = False  # areas on top of each other, instead of lines
    marks: Sequence[tuple[float, str]] = ()  # moments, with what happened then
    top: float | None = None  # of the y axis; None: the highest value


def charts(outcome: Outcome) -> Iterator[Chart]:
    """Those that there is something to show in; over time of the first seed."""
    yield from _values(outcome)
    if not outcome.base[0].jobs:
        return
    yield _completion(outcome)
    for number, variant in enumerate(outcome.experiment.variants):
        run = outcome.runs[variant.label][0]
        suffix = f"{number}-{variant.preset}"
        if run.timeline.uses:
            yield _cpu(run, suffix)
        if run.timeline.growth:
            yield _growth(run, suffix)
        if len({stay.node for stay in run.timeline.stays}) > 1:
            yield _containers(run, suffix)


def _values(outcome: Outcome) -> Iterator[Chart]:
    """What was measured over something else than time, mean over seeds."""
    for name, measure in MEASURES.items():
        figures = [one for one in outcome.experiment.figures if measure.axis and one.measure.startswith(f"{name}:")]
        series: dict[str, list[Point]] = {one.variant: [] for one in figures}
        for one in figures:
            value = measured(one.measure, outcome.base, outcome.runs[one.variant])
            series[one.variant].append((float(one.measure.partition(":")[2]), value.mean))
        if series:
            yield Chart(name, name.capitalize(), _lines(series.items()), measure.axis, measure.unit)


def _lines(named: Iterable[Named]) -> list[Line]:
    """Each in a colour of its own."""
    return [Line(name, points, colour) for colour, (name, points) in enumerate(named)]


def _completion(outcome: Outcome) -> Chart:
    """The mean over seeds, so that one lucky draw does not decide."""
    series = []
    for label, runs in outcome.runs.items():
        count = len(runs[0].jobs)
        means = [sum(run.jobs[k].jct for run in runs) / len(runs) for k in range(count)]
        series.append((label, [(k + 1.0, value) for k, value in enumerate(means)]))
    title = "Completion time of each job, mean over seeds"
    return Chart("completion", title, _lines(series), "job, in the order of arrival", "completion time (s)")


def _cpu(run: Run, suffix: str) -> Chart:
    """Of all workers together, in machines."""
    end = max(job.ended for job in run.jobs)
    moments = [end * k / _MOMENTS for k in range(_MOMENTS + 1)]
    uses: dict[int, list[Point]] = {job.serial: [] for job in run.jobs}
    for use in run.timeline.uses:
        uses[use.serial].append((use.at, use.part))
    series = [(job.label, [(at, _value_at(uses[job.serial], at)) for at in moments]) for job in run.jobs]
    title = f"CPU use of each container: {run.variant}"
    machines = float(len({use.node for use in run.timeline.uses}))
    return Chart(
        f"cpu-{suffix}", title, _lines(_few(series)), "time (s)", "machines in use", stacked=True, top=machines
    )


def _few(series: Sequence[Named]) -> list[Named]:
    """Those that cannot be told apart any more, on top of each other as one."""
    first, rest = list(series[:_MOST_SERIES]), series[_MOST_SERIES:]
    if rest:
        sums = [sum(values) for values in zip(*([value for _, value in points] for _, points in rest), strict=True)]
        moments = [at for at, _ in rest[0][1]]
        first.append((f"{len(rest)} others", list(zip(moments, sums, strict=True))))
    return first


def _growth(run: Run, suffix: str) -> Chart:
    series = []
    for job in run.jobs[:_MOST_SERIES]:
        own = [(one.at, one.value) for one in run.timeline.growth if one.serial == job.serial]
        if own:
            series.append((job.label, own))
    return Chart(f"growth-{suffix}", f"Growth of each job: {run.variant}", _lines(series), "time (s)", "growth")


def _containers(run: Run, suffix: str) -> Chart:
    names = sorted({stay.node for stay in run.timeline.stays})
    series = [(name, _occupied([s for s in run.timeline.stays if s.node == name])) for name in names]
    title = f"Containers on each worker, moves marked: {run.variant}"
    return Chart(f"containers-{suffix}", title, _lines(series), "time (s)", "containers", marks=_moves(run))


def _moves(run: Run) -> list[tuple[float, str]]:
    """When a job went on elsewhere."""
    found = []
    for job in run.jobs:
        own = sorted((stay for stay in run.timeline.stays if stay.serial == job.serial), key=lambda stay: stay.start)
        for before, after in pairwise(own):
            if before.node != after.node and after.start >= before.end:
                found.append((after.start, f"{job.label}: {before.node} → {after.node}"))
    return sorted(found)


def _occupied(stays: Sequence[Stay]) -> list[Point]:
    """How many there were, as steps."""
    changes = sorted([(stay.start, 1) for stay in stays] + [(stay.end, -1) for stay in stays])
    points, count = [(0.0, 0.0)], 0
    for at, change in changes:
        points.append((at, float(count)))
        count += change
        points.append((at, float(count)))
    return points


def _value_at(samples: Sequence[Point], at: float) -> float:
    """A value that holds until the next sample; 0 before the first."""
    index = bisect_right(samples, at, key=lambda sample: sample[0])
    return samples[index - 1][1] if index else 0.0
