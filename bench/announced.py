"""Our own policy where users announce the wrong number of steps, or none; and on draws that it was not made with."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from bench.figures import Figures
from schedulearn.lab.experiments.catalogue import CATALOGUE
from schedulearn.lab.experiments.measures import average, makespan
from schedulearn.lab.experiments.runner import run_simulated
from schedulearn.lab.experiments.types import OURS_TOLD
from schedulearn.lab.experiments.workloads import Arrivals, Draw, Jobs
from schedulearn.lab.report.paired import interval, paired
from schedulearn.lab.traces.types import TraceJob

_NAMES = ("fixed-3", "random-5", "random-10", "random-15", "fixed-20", "random-20-intervals", "mixed-20", "mixed-30")
_SEEDS, _OTHERS = 20, 80
Said = Callable[[TraceJob, Random], float | None]  # steps that are announced, as a part of the true ones

_WORDS: dict[str, Said] = {
    "the truth": lambda _, __: 1.0,
    "by half of the jobs": lambda _, luck: 1.0 if luck.random() < 0.5 else None,
    "by no job": lambda _, __: None,
    "half of the jobs end at a quarter": lambda _, luck: 1.0 if luck.random() < 0.5 else 4.0,
    "off by a factor of 2": lambda _, luck: math.exp(luck.gauss(0.0, math.log(2))),
    "off by a factor of 4": lambda _, luck: math.exp(luck.gauss(0.0, math.log(4))),
    "short jobs much, long ones little": lambda job, _: (300.0 / job.duration) ** 2,
}


@dataclass(frozen=True, slots=True)
class _Announced:
    """The same jobs, of which something else is said. Implements `experiments.workloads.Jobs`."""

    jobs: Jobs
    said: Said

    @property
    def name(self) -> str:
        return self.jobs.name

    @property
    def count(self) -> int:
        return self.jobs.count

    @property
    def arrivals(self) -> Arrivals:
        return self.jobs.arrivals

    @property
    def shuffled(self) -> bool:
        return self.jobs.shuffled

    def job(self, number: int, kind: int, at: float, draw: Draw) -> TraceJob:
        job = self.jobs.job(number, kind, at, draw)
        return replace(job, announced=self.said(job, Random(f"{number} {job.duration}")))


def measure() -> Figures:
    figures = Figures("Our own policy against the baseline: average completion time by what is announced of steps")
    for name in _NAMES:
        jobs = CATALOGUE[name].jobs
        assert jobs
        for words, said in _WORDS.items():
            _add(figures, name, words, _Announced(jobs, said), _SEEDS)
        again = replace(jobs, name=f"{jobs.name}, other draws")  # type: ignore[type-var] # all of them are dataclasses
        _add(figures, name, f"the truth, {_OTHERS} other draws", again, _OTHERS)
    return figures


def _add(figures: Figures, name: str, words: str, jobs: Jobs, seeds: int) -> None:
    experiment = CATALOGUE[name]
    outcome = run_simulated(replace(experiment, jobs=jobs, variants=(experiment.baseline, OURS_TOLD)), seeds)
    pairs = list(zip(outcome.base, outcome.runs[OURS_TOLD.label], strict=True))
    change = paired([average(base) for base, _ in pairs], [average(ours) for _, ours in pairs])
    ratios = [makespan(ours) / makespan(base) for base, ours in pairs]
    slowest = max(b.jct / a.jct for base, ours in pairs for a, b in zip(base.jobs, ours.jobs, strict=True))
    late = sum(ratio > 1.01 for ratio in ratios)
    ends = f"makespan at most × {max(ratios):.3f}, above 1.01 in {late} of {seeds}"
    against = f"{interval(change)}; {ends}; a job at most × {slowest:.1f}"
    figures.add(f"{name}, {words}", change.mean, "%", against=against)
