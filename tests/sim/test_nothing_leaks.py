"""Without the oracle, what is true of a job changes no decision before it has shown itself."""

import math
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.domain.job import Job
from schedulearn.core.domain.learning import LearningCurve
from schedulearn.core.domain.outcome import Outcome
from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.core.policies.catalogue.presets import PRESETS, build_policy
from schedulearn.lab.sim.cluster import parse_cluster
from schedulearn.lab.sim.engine import SimOptions, Simulation
from schedulearn.lab.sim.learned import LearnedFacts
from schedulearn.lab.sim.model import JobModel
from schedulearn.lab.traces.types import TraceJob, Workload

JOBS = 16
MEASURED = 20.0  # seconds at one size after which its speed is known
LEARNS = LearningCurve([(k / 20, 1 / (1 + k)) for k in range(1, 21)])
Step = tuple[float, str, int, int]  # (time, what, job, workers)


class Logged(Simulation):
    """Writes down what is decided."""

    steps: list[Step]

    def _start(self, job: Job, now: float) -> None:
        self.steps.append((now, "start", job.id, job.workers))
        super()._start(job, now)

    def _stop(self, job: Job, now: float, outcome: Outcome) -> None:
        self.steps.append((now, "stop", job.id, 0))
        super()._stop(job, now, outcome)

    def _suspend(self, job: Job, now: float) -> None:
        self.steps.append((now, "pause", job.id, 0))
        super()._suspend(job, now)

    def _go_on(self, job: Job, now: float) -> None:
        self.steps.append((now, "resume", job.id, job.workers))
        super()._go_on(job, now)

    def _end(self, model: JobModel, now: float) -> None:
        self.steps.append((now, "end", model.job.id, 0))
        super()._end(model, now)


def jobs(rng: random.Random) -> Iterator[TraceJob]:
    """Enough of them at once that most of what is decided depends on what is known."""
    for number in range(JOBS):
        want = rng.randint(1, 4)
        learns = rng.random() < 0.4
        yield TraceJob(
            str(number),
            arrival=rng.uniform(0, 600),
            duration=math.exp(rng.uniform(3, 7)),
            gpus=want,
            user=rng.choice(["ann", "bob"]),
            name=rng.choice(["bert", "mnist"]),
            workers=(1, 4),
            learning=LEARNS if learns else None,
            announced=1.0 if learns and rng.random() < 0.5 else None,
        )


def decided(preset: str, traces: list[TraceJob], cost: float = 30.0) -> list[Step]:
    policy, options = build_policy(preset), SimOptions(restart_cost=cost)
    simulation = Logged(Workload("random", traces), parse_cluster("2x4"), policy, options, LearnedFacts())
    simulation.steps = []
    simulation.run()
    return simulation.steps


def until(steps: list[Step], time: float) -> list[Step]:
    return [step for step in steps if step[0] < time - 1e-6]


def ends(steps: list[Step], number: int) -> float:
    return next((at for at, what, job, _ in steps if job == number and what == "end"), math.inf)


def measured(steps: list[Step], number: int, want: int) -> float:
    """When it has run for long enough at another size than it wants."""
    begun = (at for at, what, job, n in steps if job == number and what in ("start", "resume") and n != want)
    return min(next(begun, math.inf) + MEASURED, ends(steps, number))


def restarted(steps: list[Step]) -> float:
    """When one was first started again."""
    seen: set[int] = set()
    for at, what, job, _ in steps:
        if what == "start":
            if job in seen:
                return at
            seen.add(job)
    return math.inf


seeds = st.integers(0, 10**6)
thorough = settings(max_examples=6, deadline=None)


@pytest.mark.parametrize("preset", sorted(PRESETS))
@thorough
@given(seeds)
def test_its_duration_until_it_has_ended(preset: str, seed: int) -> None:
    rng = random.Random(seed)
    traces = list(jobs(rng))
    number = rng.choice([k for k, trace in enumerate(traces) if trace.learning is None])
    other = list(traces)
    other[number] = replace(traces[number], duration=traces[number].duration * rng.choice([0.3, 3.0]))
    one, two = decided(preset, traces), decided(preset, other)
    shown = min(ends(one, number + 1), ends(two, number + 1))
    assert until(one, shown) == until(two, shown)


@pytest.mark.parametrize("preset", sorted(name for name in PRESETS if build_policy(name).allocate.elastic))
@thorough
@given(seeds)
def test_its_speedup_until_it_was_measured(preset: str, seed: int) -> None:
    rng = random.Random(seed)
    traces = list(jobs(rng))
    number = rng.randrange(JOBS)
    other = list(traces)
    other[number] = replace(traces[number], speedup=SpeedUp([1.0, 1.1, 1.15, 1.2]))
    one, two = decided(preset, traces), decided(preset, other)
    shown = min(measured(steps, number + 1, traces[number].gpus) for steps in (one, two))
    if traces[number].learning:  # it reports what it does as it does it
        shown = min(shown, *(begins(steps, number + 1) for steps in (one, two)))
    assert until(one, shown) == until(two, shown)


def begins(steps: list[Step], number: int) -> float:
    return next(at for at, what, job, _ in steps if job == number and what == "start")


@pytest.mark.parametrize("preset", sorted(PRESETS))
@thorough
@given(seeds)
def test_what_restarts_cost_until_one_was_over(preset: str, seed: int) -> None:
    traces = list(jobs(random.Random(seed)))
    one, two = decided(preset, traces, cost=1.0), decided(preset, traces, cost=300.0)
    shown = min(restarted(one), restarted(two)) + 1.0
    assert until(one, shown) == until(two, shown)
