"""How heavy a job is, and whether it asks for what jobs like it have used."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from schedulearn.core.domain.units import format_duration, format_size
from schedulearn.core.estimate.history import Finished
from schedulearn.core.estimate.remaining import LEAST_JOBS, Estimate

_FAR = 4.0  # so many times more, or less, is far
_USED = "used"


@dataclass(frozen=True, slots=True)
class Weight:
    """What a job will take of the cluster."""

    amount: Estimate
    unit: Literal["GPU-seconds", "core-seconds"]


def weigh(duration: Estimate, workers: int, gpus: int, cpus: float) -> Weight:
    """From its seconds with so many workers; `gpus` and `cpus` are those of each. Without GPUs, cores count."""
    if gpus > 0:
        return Weight(duration.times(workers * gpus), "GPU-seconds")
    return Weight(duration.times(workers * cpus), "core-seconds")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a job asks for altogether; None: it does not say."""

    time_limit: float | None = None  # seconds
    gpus: int | None = None
    cpus: float | None = None  # cores, guaranteed
    memory: float | None = None  # bytes


@dataclass(frozen=True, slots=True)
class _Kind:
    """One thing that can be asked for."""

    asked: Callable[[Asked], float | None]
    used: Callable[[Finished], float | None]
    words: Callable[[float], str]
    what: str  # "a time limit of {}"
    fatal: bool  # a job that needs more than it asked for is stopped
    feature: str = ""  # what earlier jobs asked for: compared with where their use was not measured


_KINDS = (
    _Kind(lambda a: a.time_limit, lambda f: f.seconds, format_duration, "a time limit of {}", True),
    _Kind(lambda a: a.memory, lambda f: f.memory, format_size, "{} of memory", True, "memory"),
    _Kind(lambda a: a.gpus, lambda f: f.gpus, lambda n: _count(n, "GPU"), "{}", False),
    _Kind(lambda a: a.cpus, lambda f: f.cpus, lambda n: _count(n, "core"), "{}", False, "cpus"),
)


def hint(asked: Asked, used: Sequence[Finished]) -> str | None:
    """A sentence if the job asks for far more, or for less, than jobs like it have used (`History.like`)."""
    parts = [part for kind in _KINDS if (part := _compare(kind, asked, used))]
    return f"It asks for {'; and for '.join(parts)}." if parts else None


def _compare(kind: _Kind, asked: Asked, used: Sequence[Finished]) -> str | None:
    wanted = kind.asked(asked)
    values, did = _known(kind, used)
    if not wanted or len(values) < LEAST_JOBS or values[-1] <= 0:
        return None
    middle, most = statistics.median(values), values[-1]
    ask = kind.what.format(kind.words(wanted))
    jobs = f"{len(values)} jobs like it {did}"
    if wanted > _FAR * most:
        return f"{ask}, far more than the {kind.words(most)} that {jobs} at most"
    if kind.fatal and did == _USED and wanted < middle:
        return f"{ask}, less than most of {jobs} (half of them {kind.words(middle)} or more): it may be stopped early"
    if wanted < middle / _FAR:
        return f"{ask}, far less than most of {jobs} (half of them {kind.words(middle)} or more)"
    return None


def _known(kind: _Kind, jobs: Sequence[Finished]) -> tuple[list[float], str]:
    """In ascending order what was used; where that was not measured, what was asked for; and which of both it is."""
    used = sorted(value for job in jobs if (value := kind.used(job)) is not None)
    if len(used) >= LEAST_JOBS or not kind.feature:
        return used, _USED
    return sorted(value for job in jobs if (value := job.features.get(kind.feature)) is not None), "asked for"


def _count(number: float, unit: str) -> str:
    return f"{number:.3g} {unit}{'' if number == 1 else 's'}"
