"""Workloads as data, and the jobs of one seed made from them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.lab.experiments.models import SPREAD, Model, learning_curve
from schedulearn.lab.traces.types import TraceJob, Workload


class Arrivals(Protocol):
    def times(self, count: int, rng: Random) -> list[float]:
        """Seconds, in order."""


@dataclass(frozen=True, slots=True)
class At:
    seconds: Sequence[float]

    def times(self, count: int, rng: Random) -> list[float]:  # noqa: ARG002 - the protocol's
        return list(self.seconds[:count])


@dataclass(frozen=True, slots=True)
class Every:
    seconds: float

    def times(self, count: int, rng: Random) -> list[float]:  # noqa: ARG002
        return [self.seconds * k for k in range(count)]


@dataclass(frozen=True, slots=True)
class Within:
    """At random, evenly between 0 and so many seconds."""

    seconds: float

    def times(self, count: int, rng: Random) -> list[float]:
        return sorted(rng.uniform(0, self.seconds) for _ in range(count))


@dataclass(frozen=True, slots=True)
class Gaps:
    """One after the other, with random gaps between these."""

    least: float
    most: float

    def times(self, count: int, rng: Random) -> list[float]:
        at, found = 0.0, []
        for _ in range(count):
            found.append(at)
            at += rng.uniform(self.least, self.most)
        return found


class Jobs(Protocol):
    """What is trained."""

    @property
    def name(self) -> str:
        """Part of the seed: experiments on the same workload see the same jobs."""

    @property
    def count(self) -> int: ...

    @property
    def arrivals(self) -> Arrivals: ...

    @property
    def shuffled(self) -> bool:
        """Whether the kinds of jobs come in a random order."""

    def job(self, number: int, kind: int, at: float, draw: "Draw") -> TraceJob:
        """The job that arrives at this time: counted from 0, its kind likewise."""


@dataclass(frozen=True, slots=True)
class Draw:
    """What the jobs of one seed are made with."""

    rng: Random
    cores: float  # of a machine
    scale: float  # all times are multiplied by this


@dataclass(frozen=True, slots=True)
class Trainings:
    """Models that share machines: each keeps a part of one busy and reports its loss."""

    name: str
    models: Mapping[str, Model]
    kinds: Sequence[str]  # of these models; in this order of arrival, unless they are shuffled
    arrivals: Arrivals
    count: int
    shuffled: bool = False
    times: float = 1.0  # as long as usual each takes in this run, by its published baseline

    def job(self, number: int, kind: int, at: float, draw: Draw) -> TraceJob:
        model = self.models[self.kinds[kind % len(self.kinds)]]
        return TraceJob(
            label=f"{number + 1} {model.name}",
            arrival=at * draw.scale,
            duration=model.seconds * self.times * math.exp(draw.rng.gauss(0, SPREAD)) * draw.scale,
            gpus=0,
            name=model.name,
            cpus=model.cpu * draw.cores,
            learning=learning_curve(model, draw.rng),
            announced=1.0,
        )


@dataclass(frozen=True, slots=True)
class GpuJobs:
    """Jobs with 1 to so many GPUs, and durations around a middle one by a factor."""

    name: str
    arrivals: Arrivals
    count: int
    most_gpus: int
    median: float  # seconds
    factor: float  # e to the standard deviation of its logarithm
    shuffled: bool = False

    def job(self, number: int, kind: int, at: float, draw: Draw) -> TraceJob:  # noqa: ARG002 - the protocol's
        gpus = draw.rng.randint(1, self.most_gpus)
        seconds = self.median * math.exp(draw.rng.gauss(0, math.log(self.factor)))
        name = f"{gpus} GPUs"
        return TraceJob(f"{number + 1} {name}", at * draw.scale, seconds * draw.scale, gpus, name=name, one_node=True)


@dataclass(frozen=True, slots=True)
class CoreJobs:
    """Jobs that ask for whole cores of one machine, and durations around a middle one by a factor."""

    name: str
    arrivals: Arrivals
    count: int
    least: int
    most: int
    median: float
    factor: float
    shuffled: bool = False

    def job(self, number: int, kind: int, at: float, draw: Draw) -> TraceJob:  # noqa: ARG002
        asked = draw.rng.randint(self.least, self.most)
        seconds = self.median * math.exp(draw.rng.gauss(0, math.log(self.factor)))
        label = f"{number + 1} {asked} cores"
        return TraceJob(label, at * draw.scale, seconds * draw.scale, 0, name=f"{asked} cores", cpus=float(asked))


@dataclass(frozen=True, slots=True)
class Scaled:
    """One job of each model with so many workers, one after the other: nothing is in its way."""

    name: str
    speedups: Mapping[str, tuple[float, Sequence[float]]]  # (seconds alone, speed-up with 1, 2, … workers)
    arrivals: Arrivals
    count: int
    shuffled: bool = False

    def job(self, number: int, kind: int, at: float, draw: Draw) -> TraceJob:  # noqa: ARG002
        sizes = len(next(iter(self.speedups.values()))[1])
        model = list(self.speedups)[kind // sizes]
        seconds, curve = self.speedups[model]
        workers = kind % sizes + 1
        name, alone = f"{model} ×{workers}", seconds / curve[workers - 1]
        return TraceJob(
            name,
            at * draw.scale,
            alone * draw.scale,
            workers,
            name=name,
            speedup=SpeedUp.of(lambda n: curve[n - 1], sizes),
        )


def workload_of(jobs: Jobs, seed: int, cores: float, scale: float) -> Workload:
    """The jobs of one seed. The same seed gives the same jobs under every policy."""
    rng = Random(f"{jobs.name} {seed}")
    order = list(range(jobs.count))
    if jobs.shuffled:
        rng.shuffle(order)
    times = jobs.arrivals.times(jobs.count, rng)
    draw = Draw(rng, cores, scale)
    made = [jobs.job(number, order[number], at, draw) for number, at in enumerate(times)]
    return Workload(f"{jobs.name}, seed {seed}", made)
