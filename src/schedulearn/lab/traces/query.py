"""The parameters of a synthetic workload, as written after its `?`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any
from urllib.parse import parse_qsl

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.lab.traces.fields import MOST_GPUS, shown

MOST_JOBS = 1_000_000


@dataclass(frozen=True, slots=True)
class Options:
    jobs: int = 1000
    load: float = 0.9  # the work of all jobs over what the GPUs can do while they arrive
    gpus: int = 64
    seed: int = 1
    deadlines: float = 0.0  # the share of jobs that have one
    elastic: bool = False  # whether jobs have a range of workers and a speed-up curve
    curves: bool = False  # whether jobs have a learning curve
    cpus: float = 0.0  # cores that each job keeps busy when alone, instead of GPUs; 0: they ask for GPUs


def parse(query: str, *, gpus: int | None = None, jobs: int | None = None) -> Options:
    """`gpus` and `jobs` hold where the query does not say them."""
    given: dict[str, str] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name not in PARAMETERS:
            raise InvalidSpec(name, "no such parameter of a synthetic workload", ", ".join(PARAMETERS))
        if name in given:
            raise InvalidSpec(name, "given twice")
        given[name] = text
    if gpus is not None:
        given.setdefault("gpus", str(gpus))
    if jobs is not None:
        given.setdefault("jobs", str(jobs))
    return Options(**{name: PARAMETERS[name](name, text) for name, text in given.items()})


def _whole(least: int, most: int) -> Callable[[str, str], int]:
    def read(name: str, text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise InvalidSpec(name, f"{shown(text)} is not allowed", f"a whole number, {least} to {most}")
        return value

    return read


def _load(name: str, text: str) -> float:
    value = _float(text)
    if not 0 < value <= 100:
        raise InvalidSpec(name, f"{shown(text)} is not allowed", "a number above 0, at most 100; 1 is all GPUs busy")
    return value


def _share(name: str, text: str) -> float:
    value = _float(text)
    if not 0 <= value <= 1:
        raise InvalidSpec(name, f"{shown(text)} is not allowed", "a number, 0 to 1")
    return value


def _cores(name: str, text: str) -> float:
    value = _float(text)
    if not 0 <= value <= MOST_GPUS:
        raise InvalidSpec(name, f"{shown(text)} is not allowed", "cores that each job keeps busy, or 0")
    return value


def _flag(name: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise InvalidSpec(name, f"{shown(text)} is not allowed", "true, false")
    return text == "true"


def _float(text: str) -> float:
    """A number outside of every range where it is none."""
    try:
        value = float(text)
    except ValueError:
        return -1.0
    return value if isfinite(value) else -1.0


PARAMETERS: Mapping[str, Callable[[str, str], Any]] = {
    "jobs": _whole(1, MOST_JOBS),
    "load": _load,
    "gpus": _whole(1, MOST_GPUS),
    "seed": _whole(0, 2**63),
    "deadlines": _share,
    "elastic": _flag,
    "curves": _flag,
    "cpus": _cores,
}
