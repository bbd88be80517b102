"""Presets name combinations of stages. Every stage and parameter of a preset can be overridden."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schedulearn.domain.errors import InvalidSpec
from schedulearn.policies.registry import STAGES, stage
from schedulearn.policies.stages import Policy


@dataclass(frozen=True, slots=True)
class Preset:
    about: str  # for a person
    order: str
    allocate: str
    place: str


DEFAULT_PRESET = "fifo"
PRESETS: dict[str, Preset] = {
    "fifo": Preset(
        "First in, first out, each server filled before the next; smaller jobs may pass a job that does not fit.",
        order="fifo",
        allocate="rigid",
        place="pack",
    ),
    "round-robin": Preset(
        "First in, first out, spread over the servers in turn; smaller jobs may pass a job that does not fit.",
        order="fifo",
        allocate="rigid",
        place="round-robin",
    ),
}


def build_policy(
    preset: str = DEFAULT_PRESET,
    stages: Mapping[str, str] | None = None,
    params: Mapping[str, Any] | None = None,
) -> Policy:
    """The policy of that name with its overrides. InvalidSpec names what is unknown and what there is."""
    base = _preset(preset)
    chosen = {"order": base.order, "allocate": base.allocate, "place": base.place}
    for kind, name in (stages or {}).items():
        if kind not in chosen:
            raise InvalidSpec("stages", f"there is no stage {kind!r}", ", ".join(chosen))
        chosen[kind] = name
    infos = {kind: stage(kind, name) for kind, name in chosen.items()}
    known = {name for info in infos.values() for name in info.params}
    if unknown := set(params or {}) - known:
        allowed = ", ".join(sorted(known)) or "none with these stages"
        raise InvalidSpec(f"params.{min(unknown)}", "no stage of this policy has this parameter", allowed)
    built = {kind: info.build(params or {}) for kind, info in infos.items()}
    return Policy(preset, **built, stages=chosen, params=dict(params or {}))


def available() -> dict[str, Any]:
    """What there is to choose from, with descriptions."""
    return {
        "presets": {name: preset.about for name, preset in PRESETS.items()},
        "stages": {
            kind: {name: {"about": info.about, "params": sorted(info.params)} for name, info in infos.items()}
            for kind, infos in STAGES.items()
        },
    }


def _preset(name: str) -> Preset:
    if name in PRESETS:
        return PRESETS[name]
    near = difflib.get_close_matches(name, PRESETS, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InvalidSpec("preset", f"unknown policy {name!r}{hint}", ", ".join(PRESETS))
