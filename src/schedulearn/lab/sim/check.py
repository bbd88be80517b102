"""Does a policy keep the rules? It is tried on small random workloads; the first that breaks one is made smaller.

Each rule is one that the service, too, would stop the policy for, or that its users would suffer from.
"""

import random
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from schedulearn.core.domain.errors import BadPlan, SchedulearnError
from schedulearn.lab.sim.cluster import parse_cluster
from schedulearn.lab.sim.engine import SimOptions, Simulation
from schedulearn.lab.sim.learned import LearnedFacts
from schedulearn.lab.sim.metrics import Result
from schedulearn.lab.sim.run import Choice
from schedulearn.lab.traces.types import TraceJob, Workload

RULES = {
    "no error": "it raises no error",
    "allowed": "it asks for nothing that is not allowed",
    "ends": "every job that can run comes to its end",
    "settles": "it does not decide on and on",
    "repeats": "the same workload gives the same decisions again",
}
_GPUS, _CORES = ("1x1", "1x4", "2x2", "2x4", "4x4"), ("1x4c", "2x4c")
_MOST_JOBS = 10
_MOST_STEPS = 2_000  # for each job: a policy that looks every second for an hour is not stopped
_MOST_SMALLER = 400  # tries to make an example smaller


@dataclass(frozen=True, slots=True)
class Example:
    cluster: str
    jobs: tuple[TraceJob, ...]


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that does not hold, with the smallest workload that was found to show it."""

    rule: str  # of RULES
    problem: str
    example: Example
    trace: str = ""  # where, if an error was raised


def check(choice: Choice, tries: int, seed: int = 0, told: Callable[[int], None] = lambda _: None) -> Broken | None:
    """None: all rules held in all of so many workloads. `told` hears how many have been played."""
    rng = random.Random(seed)
    for done in range(tries):
        example = _example(rng, choice)
        if broken := _play(choice, example):
            return _smallest(choice, broken)
        told(done + 1)
    return None


def _example(rng: random.Random, choice: Choice) -> Example:
    shares = choice.build().counts_cores or "share" in choice.stages
    if shares and rng.random() < 0.5:
        return Example(rng.choice(_CORES), tuple(_job(rng, number, 0) for number in range(rng.randint(1, _MOST_JOBS))))
    cluster = rng.choice(_GPUS)
    nodes, each = map(int, cluster.split("x"))
    most = min(4, nodes * each)
    return Example(cluster, tuple(_job(rng, number, most) for number in range(rng.randint(1, _MOST_JOBS))))


def _job(rng: random.Random, number: int, most: int) -> TraceJob:
    gpus = rng.randint(1, most) if most else 0
    return TraceJob(
        f"job {number + 1}",
        arrival=float(rng.randint(0, 200)),
        duration=float(rng.randint(1, 300)),
        gpus=gpus,
        user=rng.choice(["ann", "bob", "eve"]),
        name=rng.choice(["bert", "mnist"]),
        workers=(rng.randint(1, gpus), rng.randint(gpus, 2 * gpus)) if gpus and rng.random() < 0.6 else None,
        cpus=0.0 if gpus else float(rng.randint(1, 4)),
    )


class _TooManySteps(Exception):
    pass


class _Bounded(Simulation):
    """Gives up on a policy that never comes to an end."""

    steps = 0

    def step(self, now: float) -> None:
        self.steps += 1
        if self.steps > _MOST_STEPS * len(self.workload.jobs):
            raise _TooManySteps
        super().step(now)


def _play(choice: Choice, example: Example) -> Broken | None:
    try:
        result = _run(choice, example)
        if result.unfinished:
            return Broken("ends", f"{result.unfinished} of {len(example.jobs)} jobs wait for ever", example)
        if _told(result) != _told(_run(choice, example)):
            return Broken("repeats", "played again, it decides otherwise", example)
    except _TooManySteps:
        return Broken("settles", f"after {_MOST_STEPS:,} looks for each job they have not ended", example)
    except BadPlan as error:
        return Broken("allowed", str(error), example)
    except Exception as error:  # whatever a policy does is what we want to know
        problem = str(error) if isinstance(error, SchedulearnError) else f"{type(error).__name__}: {error}"
        return Broken("no error", problem, example, traceback.format_exc())
    return None


def _run(choice: Choice, example: Example) -> Result:
    options = SimOptions(restart_cost=5.0, timeline=True)
    workload = Workload("check", example.jobs)
    return _Bounded(workload, parse_cluster(example.cluster), choice.build(), options, LearnedFacts()).run()


def _told(result: Result) -> object:
    return list(result.segments), list(result.jobs), list(result.shares)


def _smallest(choice: Choice, broken: Broken) -> Broken:
    """Smaller as long as the same rule is broken."""
    left = _MOST_SMALLER
    while left > 0:
        for example in _smaller(broken.example):
            left -= 1
            found = _play(choice, example)
            if found and found.rule == broken.rule:
                broken = found
                break
            if left <= 0:
                break
        else:
            break
    return broken


def _smaller(example: Example) -> Iterator[Example]:
    """One step at a time: fewer jobs first, then plainer ones, then a smaller cluster."""
    jobs = example.jobs
    if len(jobs) > 1:
        yield from (replace(example, jobs=(*jobs[:at], *jobs[at + 1 :])) for at in range(len(jobs)))
    for at, job in enumerate(jobs):
        for plain in _plainer(job):
            yield replace(example, jobs=(*jobs[:at], plain, *jobs[at + 1 :]))
    widest = max(job.gpus for job in jobs)
    for cluster in _GPUS if widest else ():
        nodes, each = map(int, cluster.split("x"))
        if nodes * each >= widest and _GPUS.index(cluster) < _GPUS.index(example.cluster):
            yield replace(example, cluster=cluster)


def _plainer(job: TraceJob) -> Iterator[TraceJob]:
    if job.arrival:
        yield replace(job, arrival=0.0)
    if job.duration != 10.0:
        yield replace(job, duration=10.0)
    if job.workers:
        yield replace(job, workers=None)
    if job.gpus > 1:
        yield replace(job, gpus=1, workers=None)
    if (job.user, job.name) != ("ann", "bert"):
        yield replace(job, user="ann", name="bert")
