"""What is measured of a run, alone or against the run of the baseline on the same jobs."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from schedulearn.lab.experiments.runs import JobRun, Run
from schedulearn.lab.report.paired import change

_NOTICED = 0.001  # a job is faster if it takes less than 99.9 % of the time


@dataclass(frozen=True, slots=True)
class Measure:
    title: str
    unit: str  # "s", "%" (a change), "jobs", ""
    of: Callable[[Run, Run, str], float]  # (the baseline's run, this one, argument)
    axis: str = ""  # what the arguments are, where they are numbers that it can be drawn over


def average(run: Run) -> float:
    return statistics.fmean(job.jct for job in run.jobs)


def makespan(run: Run) -> float:
    return max(job.ended for job in run.jobs) - min(job.arrival for job in run.jobs)


def job_changes(base: Run, run: Run) -> list[float]:
    return [change(one.jct, other.jct) for one, other in zip(base.jobs, run.jobs, strict=True)]


def overlap(run: Run) -> float:
    """Seconds in which all jobs ran."""
    return max(0.0, min(job.ended for job in run.jobs) - max(job.started for job in run.jobs))


def energy(run: Run) -> float | None:
    """Joules of a job, on average; None where not all of them were measured."""
    known = [job.energy for job in run.jobs if job.energy is not None]
    return statistics.fmean(known) if known and len(known) == len(run.jobs) else None


def server_use(run: Run) -> float:
    """Of the slots of servers that run something, the part in use, over time."""
    return 100.0 * run.server_use


def _named(run: Run, name: str) -> JobRun:
    return next(job for job in run.jobs if job.model == name)


def _speedup(run: Run, name: str) -> float:
    model, _, workers = name.partition(" ×")
    return _named(run, f"{model} ×1").ran / _named(run, f"{model} ×{workers}").ran


MEASURES: Mapping[str, Measure] = {
    "average": Measure("average completion time", "s", lambda _, run, __: average(run)),
    "average change": Measure("average completion time", "%", lambda b, run, _: change(average(b), average(run))),
    "makespan": Measure("makespan", "s", lambda _, run, __: makespan(run)),
    "makespan change": Measure("makespan", "%", lambda b, run, _: change(makespan(b), makespan(run))),
    "faster": Measure(
        "jobs that are faster", "jobs", lambda b, run, _: float(sum(c < -100 * _NOTICED for c in job_changes(b, run)))
    ),
    "best job": Measure("largest gain of a job", "%", lambda b, run, _: min(job_changes(b, run))),
    "worst job": Measure("largest loss of a job", "%", lambda b, run, _: max(job_changes(b, run))),
    "job": Measure("completion of {}", "s", lambda _, run, name: _named(run, name).jct),
    "job change": Measure(
        "completion of {}", "%", lambda b, run, name: change(_named(b, name).jct, _named(run, name).jct)
    ),
    "overlap": Measure("overlap of all jobs", "s", lambda _, run, __: overlap(run)),
    "deviation": Measure(
        "standard deviation of completion times", "s", lambda _, run, __: statistics.pstdev(j.jct for j in run.jobs)
    ),
    "moves": Measure("moves", "", lambda _, run, __: float(sum(job.migrations for job in run.jobs))),
    "lost work": Measure("work done again", "s", lambda _, run, __: sum(job.lost for job in run.jobs)),
    "server use": Measure("use of servers that are in use", "%-points", lambda _, run, __: server_use(run)),
    "use": Measure("use of the cluster", "%-points", lambda _, run, __: 100.0 * run.use),
    "throughput": Measure(
        "throughput under {} cores", "steps/s", lambda _, run, cores: run.values[cores], "cores that it may use"
    ),
    "overhead": Measure(
        "save and resume at {} %", "s", lambda _, run, part: run.values[part], "% of the training done"
    ),
    "overhead deviation": Measure(
        "save and resume: standard deviation", "s", lambda _, run, __: statistics.pstdev(run.values.values())
    ),
    "speed-up": Measure("speed-up of {}", "", lambda _, run, name: _speedup(run, name)),
}


@dataclass(frozen=True, slots=True)
class Value:
    """One measure over all seeds."""

    mean: float
    low: float
    high: float


def measured(key: str, base: Sequence[Run], runs: Sequence[Run]) -> Value:
    name, _, argument = key.partition(":")
    values = [MEASURES[name].of(one, other, argument) for one, other in zip(base, runs, strict=True)]
    return Value(statistics.fmean(values), min(values), max(values))


def title_of(key: str) -> str:
    name, _, argument = key.partition(":")
    return MEASURES[name].title.format(argument)


def unit_of(key: str) -> str:
    return MEASURES[key.partition(":")[0]].unit
