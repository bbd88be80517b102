"""The literal map from a stage's name to what makes it, and its parameters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from schedulearn.domain.errors import InvalidSpec
from schedulearn.domain.units import parse_duration
from schedulearn.policies.allocate.rigid import Rigid
from schedulearn.policies.allocate.strict import Strict
from schedulearn.policies.order.fifo import Fifo
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


STAGES: dict[str, dict[str, StageInfo]] = {
    "order": {
        "fifo": StageInfo(Fifo, "In the order of submission."),
    },
    "allocate": {
        "strict": StageInfo(Strict, "Each job gets what it wants; the first that does not fit blocks the line."),
        "rigid": StageInfo(
            Rigid,
            "Each job gets what it wants; smaller jobs may pass one that does not fit, until that one starves.",
            {"starvation_guard": seconds_or_off},
        ),
    },
    "place": {
        "pack": StageInfo(Pack, "Fill the first node with room before the next."),
        "round-robin": StageInfo(RoundRobin, "Rotate over the nodes, one job each."),
    },
}


def stage(kind: str, name: str) -> StageInfo:
    try:
        return STAGES[kind][name]
    except KeyError:
        raise InvalidSpec(f"stages.{kind}", f"unknown stage {name!r}", ", ".join(STAGES[kind])) from None
