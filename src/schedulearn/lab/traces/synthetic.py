"""Workloads that are made up, and look real.

    synthetic:philly?jobs=1000&load=0.9&gpus=64&seed=1&deadlines=0.3&elastic=true&curves=true

- Durations are heavy-tailed: a mixture of log-normals, from a debugging run of a minute to training of weeks.
- A few users submit most jobs. Jobs of one user and name last about equally long, so that history can estimate them.
- Learning curves fall as losses do. A user's jobs of one name learn alike; some are trained for longer than they need,
  others end before their loss is flat.
- With `cpus=2` jobs ask for no GPU: each keeps two cores busy when alone, and shares its machine. `gpus` are cores.
- Arrivals follow a daily rhythm over the time in which all the work makes up `load` of the `gpus`.
- The same source gives the same jobs everywhere: only `Random.random` is used, which Python promises not to change,
  and times are rounded, so that the last bit of a machine's logarithm does not show.
"""

from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import ceil, cos, exp, log, pi, sin, sqrt
from random import Random
from typing import Generic, TypeVar

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.learning import LearningCurve
from schedulearn.core.domain.speedup import assumed_speedup
from schedulearn.lab.traces.query import Options, parse
from schedulearn.lab.traces.types import TraceJob, Workload

T = TypeVar("T")

PREFIX = "synthetic:"
DAY = 86_400.0
LONGEST = 30 * DAY
RHYTHM = 0.6  # the busiest hour has (1 + this) / (1 − this) times the arrivals of the quietest
SPREAD = 0.3  # of the logarithm of the durations of one user's jobs of one name
TIGHTEST, LOOSEST = 1.1, 4.0  # a deadline's distance in durations
EPOCHS = 50  # points of a learning curve
FLAT_FROM, FLAT_TO = 0.4, 1.6  # parts of its work at which a job's loss is flat: training twice as long gains 2 % more
FALLS: Sequence[tuple[Callable[[float], float], float]] = (  # how a loss falls, and from where on it is flat
    (lambda z: exp(-z), log(50)),
    (lambda z: 1 / (1 + z), 24.5),
)
MODELS = {"resnet50": 0.03, "bert": 0.08, "lstm": 0.15}  # and what each further worker costs it in speed-up


@dataclass(frozen=True, slots=True)
class Kind:
    """One part of the mixture of durations."""

    name: str
    share: float  # of the jobs
    median: float  # seconds
    spread: float  # of the logarithm of the medians of different users' jobs


@dataclass(frozen=True, slots=True)
class Mix:
    """What kind of cluster is imitated."""

    kinds: Sequence[Kind]
    gpus: dict[int, float]  # number of GPUs -> share of the jobs


MIXES: dict[str, Mix] = {
    "philly": Mix(
        kinds=(
            Kind("debug", 0.34, 85, 0.5),
            Kind("finetune", 0.46, 1_750, 0.5),
            Kind("train", 0.15, 9_000, 0.9),
            Kind("pretrain", 0.05, 100_000, 1.0),
        ),
        gpus={1: 0.9317, 2: 0.0221, 4: 0.0227, 8: 0.02, 16: 0.0025, 32: 0.001},
    ),
}


def is_synthetic(source: str) -> bool:
    return source.startswith(PREFIX)


def generate(source: str, *, gpus: int | None = None, jobs: int | None = None) -> Workload:
    """`gpus` and `jobs` hold where the query does not say them."""
    name, _, query = source.removeprefix(PREFIX).partition("?")
    if name not in MIXES:
        raise InvalidSpec("trace", f"no synthetic workload {name!r}", ", ".join(PREFIX + known for known in MIXES))
    options = parse(query, gpus=gpus, jobs=jobs)
    return Workload(f"synthetic-{name}", _jobs(MIXES[name], options, Random(options.seed)))


@dataclass(frozen=True, slots=True)
class Draft:
    """A job that has no time of arrival yet."""

    user: str
    kind: str
    model: str
    duration: float
    gpus: int


def _jobs(mix: Mix, options: Options, rng: Random) -> list[TraceJob]:
    drafts = _drafts(mix, options, rng)
    work = sum(draft.duration * (options.cpus or draft.gpus) for draft in drafts)
    arrivals = _arrivals(len(drafts), work / (options.load * options.gpus), rng)
    jobs = [_job(serial, draft, arrivals[serial], options, rng) for serial, draft in enumerate(drafts)]
    return _with_curves(jobs, Random(options.seed)) if options.curves else jobs


def _drafts(mix: Mix, options: Options, rng: Random) -> list[Draft]:
    users = [f"user{n:02d}" for n in range(1, max(3, min(60, round(sqrt(options.jobs)))) + 1)]
    # How long a user's jobs of one name usually last, drawn before any job so that more jobs do not change it.
    usual = {
        (user, kind.name, model): kind.median * exp(kind.spread * _normal(rng))
        for user in users
        for kind in mix.kinds
        for model in MODELS
    }
    user_draw = _Draw(users, [1 / rank for rank in range(1, len(users) + 1)])
    kind_draw = _Draw([kind.name for kind in mix.kinds], [kind.share for kind in mix.kinds])
    model_draw = _Draw(list(MODELS), [1.0] * len(MODELS))
    fitting = {size: share for size, share in mix.gpus.items() if size <= options.gpus}
    gpus_draw = _Draw(list(fitting), list(fitting.values()))
    drafts = []
    for _ in range(options.jobs):
        user, kind, model = user_draw(rng), kind_draw(rng), model_draw(rng)
        seconds = usual[user, kind, model] * exp(SPREAD * _normal(rng))
        drafts.append(Draft(user, kind, model, float(round(min(LONGEST, max(1.0, seconds)))), gpus_draw(rng)))
    return drafts


def _arrivals(number: int, span: float, rng: Random) -> list[float]:
    """Times in a span, ascending, as often as the hour of the day is busy: drawn evenly, then kept or not."""
    arrivals: list[float] = []
    while len(arrivals) < number:
        when = rng.random() * span
        busy = 1 + RHYTHM * sin(2 * pi * when / DAY)
        if rng.random() * (1 + RHYTHM) < busy:
            arrivals.append(round(when, 3))
    return sorted(arrivals)


def _job(serial: int, draft: Draft, arrival: float, options: Options, rng: Random) -> TraceJob:
    # Everything is drawn for every job, so that one option does not change what another one gives.
    has_deadline, slack = rng.random() < options.deadlines, rng.random()
    shrink, grow = int(rng.random() * 3), int(rng.random() * 3)
    elastic = options.elastic and not options.cpus
    workers = (max(1, draft.gpus >> shrink), min(options.gpus, draft.gpus << grow)) if elastic else None
    patience = draft.duration * (TIGHTEST + (LOOSEST - TIGHTEST) * slack)
    return TraceJob(
        label=f"job-{serial}",
        arrival=arrival,
        duration=draft.duration,
        gpus=0 if options.cpus else draft.gpus,
        user=draft.user,
        name=f"{draft.model}-{draft.kind}",
        deadline=arrival + ceil(patience) if has_deadline else None,
        workers=workers,
        speedup=assumed_speedup(workers[1], MODELS[draft.model]) if workers else None,
        cpus=options.cpus,
    )


def _with_curves(jobs: Sequence[TraceJob], rng: Random) -> list[TraceJob]:
    """With numbers of their own, so that all the rest stays as it is without curves."""
    known: dict[tuple[str, str], LearningCurve] = {}
    for job in jobs:
        if (job.user, job.name) not in known:
            known[job.user, job.name] = _curve(rng)
    return [replace(job, learning=known[job.user, job.name]) for job in jobs]


def _curve(rng: Random) -> LearningCurve:
    """A loss after each epoch, rounded for the same reason as times are."""
    fall, reach = FALLS[int(rng.random() * len(FALLS))]
    flat = FLAT_FROM * (FLAT_TO / FLAT_FROM) ** rng.random()
    height, low = 1 + 7 * rng.random(), 0.5 * rng.random()
    parts = [epoch / EPOCHS for epoch in range(1, EPOCHS + 1)]
    return LearningCurve([(part, round(low + height * fall(reach * part / flat), 6)) for part in parts], "min")


class _Draw(Generic[T]):
    """A choice by weights."""

    def __init__(self, values: Sequence[T], weights: Sequence[float]) -> None:
        self._values, self._sums = values, list(accumulate(weights))

    def __call__(self, rng: Random) -> T:
        return self._values[min(bisect(self._sums, rng.random() * self._sums[-1]), len(self._values) - 1)]


def _normal(rng: Random) -> float:
    """From the standard normal distribution (Box and Muller)."""
    return sqrt(-2 * log(1 - rng.random())) * cos(2 * pi * rng.random())
