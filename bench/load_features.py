"""Does the load of the cluster at a job's submission tell how long it will run?

The number of jobs that run does, much, so it is a feature (`core/estimate/jobs.py`); the free part of the cores tells
nothing beyond it, so it is none.

Jobs of ten models share machines, at loads that come and go. How long each runs is guessed at its submission from those
that have ended, with and without the number of running jobs and the free part of the cores as features.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from bench.figures import Figures
from schedulearn.core.estimate.history import Finished, History
from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.lab.experiments.models import SPECON
from schedulearn.lab.experiments.types import Machines
from schedulearn.lab.experiments.workloads import Trainings, workload_of
from schedulearn.lab.sim.engine import Simulation
from schedulearn.lab.sim.metrics import JobResult

_MACHINES = Machines(4, cores=16.0)
_JOBS, _SEEDS, _WARM = 600, 5, 100  # the first so many are only learned from
_SETS = {"nothing": (), "running jobs": ("jobs",), "free cores": ("free",), "both": ("jobs", "free")}


@dataclass(frozen=True, slots=True)
class _Waves:
    """Calm and busy hours. Implements `workloads.Arrivals`."""

    def times(self, count: int, rng: Random) -> list[float]:
        at, found = 0.0, []
        for _ in range(count):
            busy = 0.5 + 0.5 * math.sin(at / 3000.0)
            at += rng.expovariate((0.4 + 1.2 * busy) / 60.0)
            found.append(at)
        return found


def measure() -> Figures:
    figures = Figures("Guesses of durations at submission: mean error, as a factor")
    for preset in ("k8s-default", "schedulearn"):
        runs = [_simulated(preset, seed) for seed in range(_SEEDS)]
        plain = 0.0
        for words, names in _SETS.items():
            error = statistics.fmean(_error(run, names) for run in runs)
            plain = plain or error
            figures.add(f"{preset}: by {words}", math.exp(error), "×", against=f"{100 * (error / plain - 1):+.1f} %")
    return figures


def _simulated(preset: str, seed: int) -> list[tuple[str, JobResult]]:
    jobs = Trainings("load", SPECON, tuple(SPECON), _Waves(), _JOBS, shuffled=True)
    workload = workload_of(jobs, seed, _MACHINES.cores, 1.0)
    result = Simulation(workload, _MACHINES.nodes(), build_policy(preset)).run()
    return [(workload.jobs[job.serial - 1].name, job) for job in result.jobs]


def _error(run: Sequence[tuple[str, JobResult]], names: Sequence[str]) -> float:
    """The mean distance of logarithms, of guess and truth."""
    loads = {job.serial: _load(job.arrival, [other for _, other in run]) for _, job in run}
    history, errors = History(), []
    events = [event for name, job in run for event in ((job.arrival, 0, name, job), (job.ended, 1, name, job))]
    events.sort(key=lambda event: event[:2])
    for _, is_end, name, job in events:
        features = {key: loads[job.serial][key] for key in names}
        seconds = job.ended - job.started
        if is_end:
            history.learn(Finished("", name, 0, seconds, features))
        elif len(history) >= _WARM and (guess := history.duration("", name, 0, features)):
            errors.append(abs(math.log(guess.expected / seconds)))
    return statistics.fmean(errors)


def _load(at: float, jobs: Sequence[JobResult]) -> dict[str, float]:
    """Counted from one, as laws are about powers."""
    running = sum(job.started <= at < job.ended for job in jobs)
    return {"jobs": 1.0 + running, "free": max(0.05, 1.0 - running / _MACHINES.count)}
