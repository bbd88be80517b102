"""Presets name combinations of stages. Every stage and parameter of a preset can be overridden."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.policies.catalogue.registry import STAGES, StageInfo, stage
from schedulearn.core.policies.stages import Policy


@dataclass(frozen=True, slots=True)
class Preset:
    about: str  # for a person: what it does
    order: str
    allocate: str = "rigid"
    place: str = "pack"
    share: str = "fair"
    migrate: str = "none"
    more: str = ""  # the second sentence: when to take it, or what it costs


DEFAULT_PRESET = "schedulearn"  # of a service that was told nothing else
PLAIN_PRESET = "fifo"  # no estimates, moves or limits: around a stage of a user's own, and where others fail
PRESETS: dict[str, Preset] = {
    "fifo": Preset(
        "First in, first out, each server filled before the next; smaller jobs may pass a job that does not fit.",
        order="fifo",
        more="Plain and predictable, and no job is ever stopped; a short job may wait long behind large ones.",
    ),
    "round-robin": Preset(
        "First in, first out, spread over the servers in turn; smaller jobs may pass a job that does not fit.",
        order="fifo",
        place="round-robin",
        more="Good where jobs slow each other down on a shared server; large jobs find less room in one piece.",
    ),
    "srjf": Preset(
        "The job with the shortest estimated duration first; no job is interrupted.",
        order="srjf",
        more="Waits are short on average where earlier jobs tell how long one takes; long jobs wait longest.",
    ),
    "srtf": Preset(
        "The job with the least time left first; it takes the place of longer ones.",
        order="srtf",
        more="Completion is early on average where durations are known; each interruption costs a save and a restart.",
    ),
    "srsf": Preset(
        "The job with the least time left × GPUs first; it takes the place of others.",
        order="srsf",
        more="Better than srtf where jobs differ much in size: one large job does not push many small ones aside.",
    ),
    "edf": Preset(
        "The job with the nearest deadline first, as long as it can still make it.",
        order="edf",
        more="Take it where jobs have deadlines that matter; without deadlines it is first in, first out.",
    ),
    "tiresias": Preset(
        "Jobs with the least service first, so that short ones finish early although durations are not known.",
        order="las",
        more="Take it where nothing is known of durations; long jobs are interrupted, which costs restarts.",
    ),
    "tiresias-gittins": Preset(
        "Tiresias, with the chance to finish soon, learned from earlier jobs, deciding inside its queues.",
        order="gittins",
        more="It needs a history of jobs that resemble those to come; without one it is plain Tiresias.",
    ),
    "gandiva": Preset(
        "Jobs share the devices in turn, a quantum each, suspended in between.",
        order="time-slice",
        more="Every job shows first results soon, and none is stopped; all together take longer.",
    ),
    "gandiva-grow": Preset(
        "As gandiva, and jobs that may change their size grow into devices that would lie idle, and shrink for others.",
        order="time-slice",
        allocate="elastic",
        more="Take it where devices lie idle at times; a job takes its turns at its least size while others wait.",
    ),
    "gandiva-pack": Preset(
        "As gandiva, and two jobs share a device at once where they get more done than in turn; in simulations only.",
        order="time-slice-packed",
        more="It tells what packing would bring; a service leases each device to one job, and refuses it.",
    ),
    "elastic-fifo": Preset(
        "First in, first out; each job gets its minimum, the rest is shared out, and running jobs shrink for others.",
        order="fifo",
        allocate="elastic",
        more="It uses what would lie idle; a job should be able to change its number of workers cheaply.",
    ),
    "elastic-srjf": Preset(
        "As elastic-fifo, with the shortest estimated job first.",
        order="srjf",
        allocate="elastic",
        more="Short jobs get out of the way, and what they leave is used at once by those that can grow.",
    ),
    "elastic-tiresias": Preset(
        "Tiresias with sizes that change: what is left goes where it brings most; when many wait, others shrink.",
        order="las",
        allocate="elastic-tiresias",
        more="Take it for jobs that can change their size where durations are not known.",
    ),
    "ffdl": Preset(
        "First in, first out, with sizes that make the sum of all speed-ups as large as it can be.",
        order="fifo",
        allocate="ffdl",
        more="Best for jobs that speed up well with more workers; it resizes often, so resizing must be cheap.",
    ),
    "afs-l": Preset(
        "Short jobs first; each further worker goes where it does most for the average completion time (AFS-L).",
        order="srtf-min",
        allocate="afs",
        more="A strong choice where durations and speed-ups are known; with poor estimates it resizes in vain.",
    ),
    "pollux": Preset(
        "Each minute sizes and places for all, by search: all gain as much as can be over an equal share (Pollux).",
        order="srtf-min",
        allocate="pollux",
        place="pollux",
        more="Made for jobs that leave their batch size to the scheduler; the search takes its time on large clusters.",
    ),
    "voda": Preset(
        "As elastic-fifo; after each change of sizes all jobs are packed anew, with few migrations (Voda).",
        order="fifo",
        allocate="elastic",
        place="hungarian",
        migrate="repack",
        more="Take it where a job on several servers is much slower; it moves jobs without asking what that costs.",
    ),
    "k8s-default": Preset(
        "First in, first out, each worker on the node with the least requested share, as Kubernetes does it.",
        order="fifo",
        place="k8s-default",
        more="It is the baseline of the published comparisons: it spreads the load, and knows nothing of training.",
    ),
    "procon": Preset(
        "First in, first out, each job where the least work is left to do (ProCon).",
        order="fifo",
        place="procon",
        more="Servers become free at about the same time; it does not move a job once it runs.",
    ),
    "specon": Preset(
        "As k8s-default, and jobs whose training has converged make room for those that still learn (SpeCon).",
        order="fifo",
        place="k8s-default",
        migrate="specon",
        more="Take it on several shared servers where jobs report a loss; each move costs a save and a restart.",
    ),
    "cores-strict": Preset(
        "Whole cores of one machine: a job runs when all the cores that it asked for are free.",
        order="fifo",
        allocate="cores-strict",
        more="Every job is as fast as its user expected; cores may lie idle while a job waits for the rest of its own.",
    ),
    "cores-attend": Preset(
        "Whole cores of one machine: a job runs with what is free, if that is two cores, and grows later.",
        order="fifo",
        allocate="cores-attend",
        more="Fewer cores lie idle than with cores-strict; a job may begin slowly.",
    ),
    "cores-proportional": Preset(
        "Whole cores of one machine: all waiting jobs get the same part of what they asked for, and grow later.",
        order="fifo",
        allocate="cores-proportional",
        more="No job waits for all of its cores; all are slower while there are many.",
    ),
    "flowcon": Preset(
        "Jobs share machines, and CPU goes to those whose training still gains from it (FlowCon, as published).",
        order="fifo",
        place="k8s-default",
        share="flowcon",
        more="New jobs come to a usable loss sooner; those that have nearly converged take a little longer.",
    ),
    "flowcon-calm": Preset(
        "As flowcon, by means over whole intervals: a limit does not follow the noise of a loss.",
        order="fifo",
        place="k8s-default",
        share="flowcon-calm",
        more="Take it where losses jump; it notices later than flowcon that a job has nearly converged.",
    ),
    "schedulearn": Preset(
        "Every worker and every core goes where it brings most; moves and restarts only where they pay (our own).",
        order="srsf",
        allocate="price",
        place="least-work",
        share="shortest",
        migrate="tidy",
        more="It is the default: jobs that may change their size or be interrupted are, where all together gain by it.",
    ),
}


def build_policy(
    preset: str = PLAIN_PRESET,
    stages: Mapping[str, str] | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    files: bool = False,
) -> Policy:
    """The policy of that name with its overrides. InvalidSpec names what is unknown and what there is.

    `files`: a stage may also be `FILE.py:Class`, which runs that file.
    """
    infos = _infos(preset, stages or {}, files)
    # A parameter of a stage that was overridden is still a parameter of the preset; it only has nothing to do.
    known = params_of(preset, stages, files=files) | params_of(preset)
    if unknown := set(params or {}) - known:
        allowed = ", ".join(sorted(known)) or "none with these stages"
        raise InvalidSpec(f"params.{min(unknown)}", "no stage of this policy has this parameter", allowed)
    built = {kind: info.build(params or {}) for kind, (info, _) in infos.items()}
    chosen = {kind: name for kind, (_, name) in infos.items()}
    return Policy(preset, **built, stages=chosen, params=dict(params or {}))


def params_of(preset: str, stages: Mapping[str, str] | None = None, *, files: bool = False) -> set[str]:
    """The parameters that the stages of this policy have."""
    return {param for info, _ in _infos(preset, stages or {}, files).values() for param in info.params}


def _infos(preset: str, stages: Mapping[str, str], files: bool) -> dict[str, tuple[StageInfo, str]]:
    """What makes each stage, and its name."""
    base = _preset(preset)
    chosen = {kind: getattr(base, kind) for kind in STAGES}
    for kind in stages:
        if kind not in chosen:
            raise InvalidSpec("stages", f"there is no stage {kind!r}", ", ".join(chosen))
    chosen |= stages
    return {kind: (stage(kind, name, files=files), name) for kind, name in chosen.items()}


def available() -> dict[str, Any]:
    """What there is to choose from, with descriptions; of a parameter also its default."""
    return {
        "presets": {name: preset.about for name, preset in PRESETS.items()},
        "details": {
            name: {"more": preset.more, "stages": {kind: getattr(preset, kind) for kind in STAGES}}
            for name, preset in PRESETS.items()
        },
        "stages": {
            kind: {
                name: {"about": info.about, "params": sorted(info.params), "defaults": info.defaults}
                for name, info in infos.items()
            }
            for kind, infos in STAGES.items()
        },
    }


def _preset(name: str) -> Preset:
    if name in PRESETS:
        return PRESETS[name]
    near = difflib.get_close_matches(name, PRESETS, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InvalidSpec("preset", f"unknown policy {name!r}{hint}", ", ".join(PRESETS))
