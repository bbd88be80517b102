"""The literal map from a stage's name to what makes it, and its parameters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from schedulearn.domain.errors import InvalidSpec
from schedulearn.domain.units import parse_duration
from schedulearn.policies.allocate.elastic import Elastic
from schedulearn.policies.allocate.rigid import Rigid
from schedulearn.policies.allocate.strict import Strict
from schedulearn.policies.order.edf import Edf
from schedulearn.policies.order.fifo import Fifo
from schedulearn.policies.order.gittins import Gittins
from schedulearn.policies.order.las import Las
from schedulearn.policies.order.srjf import Srjf
from schedulearn.policies.order.srsf import Srsf
from schedulearn.policies.order.srtf import Srtf
from schedulearn.policies.order.time_slice import TimeSlice
from schedulearn.policies.place.best_fit import BestFit
from schedulearn.policies.place.count import Count
from schedulearn.policies.place.pack import Pack
from schedulearn.policies.place.round_robin import RoundRobin

Parse = Callable[[object, str], Any]  # (value, field) -> the value as the stage takes it


def seconds_or_off(value: object, field_name: str) -> float:
    return float("inf") if value in ("off", None) else parse_duration(value, field_name)


@dataclass(frozen=True, slots=True)
class StageInfo:
    """One implementation of a stage."""

    make: Callable[..., Any]
    about: str  # one sentence for a person
    params: Mapping[str, Parse] = field(default_factory=dict)

    def build(self, params: Mapping[str, Any]) -> Any:
        known = {name: parse(params[name], f"params.{name}") for name, parse in self.params.items() if name in params}
        return self.make(**known)


def seconds(value: object, field_name: str) -> float:
    return parse_duration(value, field_name)


def times_or_off(value: object, field_name: str) -> float | None:
    """How many times as long, or off."""
    if value in ("off", None):
        return None
    try:
        return float(str(value))
    except ValueError:
        raise InvalidSpec(field_name, f"{value!r} is not a number", "a number, or off") from None


def numbers(value: object, field_name: str) -> tuple[float, ...]:
    """`3250,7200` or a list of numbers, rising."""
    parts = value.split(",") if isinstance(value, str) else value
    try:
        found = tuple(float(part) for part in (parts if isinstance(parts, list | tuple) else [parts]))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = ()
    if not found or list(found) != sorted(found) or found[0] <= 0:
        raise InvalidSpec(field_name, f"{value!r} is not a list of rising numbers", "such as 3250,7200")
    return found


_TIRESIAS: dict[str, Parse] = {"thresholds": numbers, "promote": times_or_off}

STAGES: dict[str, dict[str, StageInfo]] = {
    "order": {
        "fifo": StageInfo(Fifo, "In the order of submission."),
        "srjf": StageInfo(Srjf, "The shortest estimated job first; nobody is interrupted."),
        "srtf": StageInfo(Srtf, "The shortest remaining time first, interrupting longer ones."),
        "srsf": StageInfo(Srsf, "The smallest remaining time × GPUs first, interrupting others."),
        "edf": StageInfo(Edf, "The earliest deadline first; those that cannot make theirs any more come later."),
        "las": StageInfo(Las, "Who has had the least service goes first, in discrete queues.", _TIRESIAS),
        "gittins": StageInfo(
            Gittins, "As las, and inside a queue by the chance to finish soon.", {**_TIRESIAS, "gpu_times": numbers}
        ),
        "time-slice": StageInfo(TimeSlice, "Everybody in turn, a quantum each.", {"quantum": seconds}),
    },
    "allocate": {
        "strict": StageInfo(Strict, "Each job gets what it wants; the first that does not fit blocks the line."),
        "rigid": StageInfo(
            Rigid,
            "Each job gets what it wants; smaller jobs may pass one that does not fit, until that one starves.",
            {"starvation_guard": seconds_or_off},
        ),
        "elastic": StageInfo(Elastic, "Everybody gets its least, then the rest is handed out in turn."),
    },
    "place": {
        "count": StageInfo(Count, "Free slots are counted, nodes ignored."),
        "pack": StageInfo(Pack, "Fill the first node with room before the next."),
        "round-robin": StageInfo(RoundRobin, "Rotate over the nodes, one job each."),
        "best-fit": StageInfo(BestFit, "The node where it fits tightest."),
    },
}


def stage(kind: str, name: str) -> StageInfo:
    try:
        return STAGES[kind][name]
    except KeyError:
        raise InvalidSpec(f"stages.{kind}", f"unknown stage {name!r}", ", ".join(STAGES[kind])) from None
