"""The literal map from a stage's name to what makes it, and its parameters."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from inspect import signature
from typing import Any

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.units import parse_duration, short
from schedulearn.core.policies.allocate.afs import Afs
from schedulearn.core.policies.allocate.cores_attend import CoresAttend
from schedulearn.core.policies.allocate.cores_proportional import CoresProportional
from schedulearn.core.policies.allocate.cores_strict import CoresStrict
from schedulearn.core.policies.allocate.elastic import Elastic
from schedulearn.core.policies.allocate.elastic_tiresias import ElasticTiresias
from schedulearn.core.policies.allocate.ffdl import Ffdl
from schedulearn.core.policies.allocate.pollux import Pollux
from schedulearn.core.policies.allocate.price import Price
from schedulearn.core.policies.allocate.rigid import Rigid
from schedulearn.core.policies.allocate.strict import Strict
from schedulearn.core.policies.migrate.balance import Balance
from schedulearn.core.policies.migrate.consolidate import BRANCH_AND_BOUND, GENETIC, HUNGARIAN, Consolidate
from schedulearn.core.policies.migrate.repack import Repack
from schedulearn.core.policies.migrate.specon import Specon
from schedulearn.core.policies.migrate.tidy import Tidy
from schedulearn.core.policies.order.edf import Edf
from schedulearn.core.policies.order.fifo import Fifo
from schedulearn.core.policies.order.gittins import Gittins
from schedulearn.core.policies.order.las import Las
from schedulearn.core.policies.order.srjf import Srjf
from schedulearn.core.policies.order.srjf_aged import SrjfAged
from schedulearn.core.policies.order.srsf import Srsf
from schedulearn.core.policies.order.srtf import Srtf
from schedulearn.core.policies.order.srtf_min import SrtfMin
from schedulearn.core.policies.order.time_slice import PackedTimeSlice, TimeSlice
from schedulearn.core.policies.params import Parse
from schedulearn.core.policies.place.best_fit import BestFit
from schedulearn.core.policies.place.count import Count
from schedulearn.core.policies.place.hungarian import Hungarian
from schedulearn.core.policies.place.k8s_default import K8sDefault
from schedulearn.core.policies.place.least_work import LeastWork
from schedulearn.core.policies.place.pack import Pack
from schedulearn.core.policies.place.pollux import PolluxPlaces
from schedulearn.core.policies.place.procon import Procon
from schedulearn.core.policies.place.round_robin import RoundRobin
from schedulearn.core.policies.share.flowcon import FULL, ONE_AND_AN_NTH, PROPORTIONAL, FlowCon
from schedulearn.core.policies.share.flowcon_calm import FlowConCalm
from schedulearn.core.policies.share.shortest import Shortest


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

    @property
    def defaults(self) -> dict[str, str]:
        """What each parameter is unless it is given, as a person would write it."""
        if not self.params:
            return {}
        given = signature(self.make).parameters
        return {name: _written(given[name].default) for name in sorted(self.params) if name in given}


def _written(value: object) -> str:
    if value is None or value == math.inf:
        return "off"
    if isinstance(value, tuple | list):
        return ",".join(_written(one) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def seconds(value: object, field_name: str) -> float:
    return parse_duration(value, field_name)


def some_seconds(value: object, field_name: str) -> float:
    """For what is done again and again."""
    found = parse_duration(value, field_name)
    if found <= 0:
        raise InvalidSpec(field_name, f"{value!r} is not allowed", "more than 0 s")
    return found


def times_or_off(value: object, field_name: str) -> float | None:
    """How many times as long, or off."""
    if value in ("off", None):
        return None
    try:
        return float(str(value))
    except ValueError:
        raise InvalidSpec(field_name, f"{value!r} is not a number", "a number, or off") from None


def whole_number(value: object, field_name: str) -> int:
    try:
        found = int(str(value))
    except ValueError:
        found = -1
    if found < 0:
        raise InvalidSpec(field_name, f"{value!r} is not a whole number", "0 or more")
    return found


def numbers(value: object, field_name: str) -> tuple[float, ...]:
    """`3250,7200` or a list of numbers, rising."""
    parts = value.split(",") if isinstance(value, str) else value
    try:
        found = tuple(float(part) for part in (parts if isinstance(parts, list | tuple) else [parts]))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = ()
    if not found or not all(0 < number < math.inf for number in found) or list(found) != sorted(found):
        raise InvalidSpec(field_name, f"{short(value)} is not a list of rising numbers above 0", "such as 3250,7200")
    return found


def whole(least: int, most: int) -> Parse:
    """Makes a parser of whole numbers in a range."""

    def parse(value: object, field_name: str) -> int:
        try:
            number = int(str(value))  # by way of text: neither 1.5 nor true is a whole number
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise InvalidSpec(field_name, f"{value!r} is not such a number", f"a whole number from {least} to {most}")
        return number

    return parse


def part(value: object, field_name: str) -> float:
    """From 0 to below 1."""
    try:
        found = float(str(value))
    except ValueError:
        found = -1.0
    if not 0 <= found < 1:
        raise InvalidSpec(field_name, f"{value!r} is not allowed", "0 to below 1")
    return found


def number(least: float, most: float) -> Parse:
    """Makes a parser of numbers in a range."""

    def parse(value: object, field_name: str) -> float:
        try:
            found = float(str(value))
        except ValueError:
            found = math.nan
        if not least <= found <= most:
            raise InvalidSpec(field_name, f"{value!r} is not allowed", f"a number from {least:g} to {most:g}")
        return found

    return parse


def time_span(value: object, field_name: str) -> float:
    """Seconds, more than none: for what is done again and again."""
    found = parse_duration(value, field_name)
    if not 0 < found < math.inf:
        raise InvalidSpec(field_name, f"{value!r} is not allowed", "more than 0 seconds, such as 20 or 1m")
    return found


def one_of(*words: str) -> Parse:
    def parse(value: object, field_name: str) -> str:
        if value not in words:
            raise InvalidSpec(field_name, f"{value!r} is not allowed", ", ".join(words))
        return str(value)

    return parse


def beta(value: object, field_name: str) -> float | str:
    """FlowCon's: what becomes slow keeps a part of 1 / (beta × containers)."""
    return ONE_AND_AN_NTH if value == ONE_AND_AN_NTH else number(1.0, 1000.0)(value, field_name)


_TIRESIAS: dict[str, Parse] = {"thresholds": numbers, "promote": times_or_off}

_FLOWCON: dict[str, Parse] = {
    "alpha": part,
    "itval": time_span,
    "beta": beta,
    "growing": one_of(FULL, PROPORTIONAL),
    "itval_cap": time_span,
}

_CORES: dict[str, Parse] = {"memory_below": number(0.0, 1.0)}

STAGES: dict[str, dict[str, StageInfo]] = {
    "order": {
        "fifo": StageInfo(Fifo, "In the order of submission."),
        "srjf": StageInfo(Srjf, "The shortest estimated job first; no job is interrupted."),
        "srjf-aged": StageInfo(
            SrjfAged,
            "The shortest estimated job first, but none waits over `patience` times its duration for shorter ones.",
            {"patience": number(0, 1e6)},
        ),
        "srtf": StageInfo(Srtf, "The shortest remaining time first, interrupting longer ones."),
        "srtf-min": StageInfo(SrtfMin, "As srtf, with each job's least number of workers; what AFS starts jobs by."),
        "srsf": StageInfo(Srsf, "The smallest remaining time × GPUs first, interrupting others."),
        "edf": StageInfo(Edf, "The earliest deadline first; those that cannot make theirs any more come later."),
        "las": StageInfo(Las, "The job with the least service first, in discrete queues.", _TIRESIAS),
        "gittins": StageInfo(
            Gittins, "As las, and inside a queue by the chance to finish soon.", {**_TIRESIAS, "gpu_times": numbers}
        ),
        "time-slice": StageInfo(TimeSlice, "All jobs in turn, a quantum each.", {"quantum": seconds}),
        "time-slice-packed": StageInfo(
            PackedTimeSlice, "All jobs in turn, two on one device where that gains (simulated).", {"quantum": seconds}
        ),
    },
    "allocate": {
        "strict": StageInfo(Strict, "Each job gets what it wants; the first that does not fit blocks the line."),
        "rigid": StageInfo(
            Rigid,
            "Each job gets what it wants; smaller jobs may pass one that does not fit, until that one starves.",
            {"starvation_guard": seconds_or_off},
        ),
        "elastic": StageInfo(Elastic, "Each job gets its minimum, then the rest is given out in turn."),
        "elastic-tiresias": StageInfo(
            ElasticTiresias,
            "Each job gets what it wants, the rest goes where it brings most; when many wait, those served shrink.",
            {"compact_above": whole_number},
        ),
        "ffdl": StageInfo(Ffdl, "The sum of all speed-ups is as large as it can be."),
        "afs": StageInfo(Afs, "Each worker goes to the job where it does most for the average completion time."),
        "pollux": StageInfo(
            Pollux,
            "Each minute sizes and places together: all gain as much as can be against an equal share.",
            {
                "every": time_span,
                "population": whole(2, 1_000),
                "generations": whole(0, 10_000),
                "seed": whole(0, 2**32 - 1),
            },
        ),
        "price": StageInfo(
            Price,
            "Workers go where they bring most: the speed that each gains times what its job's work holds up.",
            {
                "own": number(0.0, 100.0),
                "fair": number(0.0, 100.0),
                "horizon": time_span,
                "stop": number(0.0, 1000.0),
                "assumed": number(0.05, 1.0),
                "job_patience": number(0.0, 1e6),
                "patience_from": seconds,
                "guarded": number(0.0, 1.0),
            },
        ),
        "cores-strict": StageInfo(
            CoresStrict, "Whole cores of one machine: all that a job asked for, or none.", _CORES
        ),
        "cores-attend": StageInfo(CoresAttend, "The same: what is free, as soon as that is two cores.", _CORES),
        "cores-proportional": StageInfo(
            CoresProportional, "The same: all waiting jobs get the same part of what they asked for.", _CORES
        ),
    },
    "place": {
        "count": StageInfo(Count, "Free slots are counted, nodes ignored."),
        "pack": StageInfo(Pack, "Fill the first node with room before the next."),
        "round-robin": StageInfo(RoundRobin, "Rotate over the nodes, one job each."),
        "best-fit": StageInfo(BestFit, "The node where it fits tightest."),
        "hungarian": StageInfo(Hungarian, "As few nodes as possible, the rest of a job where it fits tightest."),
        "k8s-default": StageInfo(
            K8sDefault,
            "Each worker on the node with the least requested share, as Kubernetes; equals draw lots.",
            {"seed": whole(0, 2**32 - 1)},
        ),
        "procon": StageInfo(
            Procon,
            "The node whose jobs have the least left to do, times their number.",
            {"procon_cpu_limit": part},
        ),
        "pollux": StageInfo(PolluxPlaces, "Where the allocate stage of that name found the best places."),
        "least-work": StageInfo(LeastWork, "The node whose jobs have the least work left to do."),
    },
    "share": {
        "fair": StageInfo(lambda: None, "No job is limited: the jobs of a machine share its cores as equals."),
        "flowcon": StageInfo(
            FlowCon,
            "Jobs whose training hardly gains anything any more make way for those that still grow.",
            _FLOWCON,
        ),
        "flowcon-calm": StageInfo(
            FlowConCalm, "As flowcon, by means over whole intervals, so that noise is not followed.", _FLOWCON
        ),
        "shortest": StageInfo(
            Shortest,
            "The job with the least work left goes first; none gets less than a part of its equal share.",
            {"look": time_span, "floor": number(0.01, 1.0)},
        ),
    },
    "migrate": {
        "none": StageInfo(lambda: None, "No job is moved."),
        "consolidate": StageInfo(
            Consolidate,
            "Jobs that are spread over nodes are brought together, where that saves more time than the moves cost.",
            {
                "consolidate_every": seconds,
                "locality_penalty": part,
                "solver": one_of(HUNGARIAN, BRANCH_AND_BOUND, GENETIC),
                "states": whole(1, 10_000_000),
                "population": whole(2, 1_000),
                "generations": whole(0, 10_000),
                "seed": whole(0, 2**32 - 1),
            },
        ),
        "repack": StageInfo(
            Repack,
            "Whenever sizes have changed, all jobs are packed anew, with as few migrations as that allows.",
            {"repack_every": seconds},
        ),
        "specon": StageInfo(
            Specon,
            "Jobs whose training has converged make room for those that still learn; empty nodes are filled again.",
            {"specon_alpha": part, "specon_interval": some_seconds, "specon_others": whole(0, 1_000_000)},
        ),
        "balance": StageInfo(
            Balance,
            "Jobs move to machines that have less to do, where that shortens completion times by more than it costs.",
            {"balance_every": time_span, "balance_rest": time_span},
        ),
        "tidy": StageInfo(
            Tidy,
            "As consolidate, and where nothing is to be brought together as balance.",
            {"consolidate_every": seconds, "balance_every": time_span, "balance_rest": time_span},
        ),
    },
}


def stage(kind: str, name: str, *, files: bool = False) -> StageInfo:
    """One of the above, one that an installed package adds, or, where `files` are allowed, `FILE.py:Class`."""
    if name in STAGES[kind]:
        return STAGES[kind][name]
    # Looked for only when such a stage is asked for.
    from schedulearn.core.policies.catalogue.plugins import from_file, installed, is_file, names

    if files and is_file(name):
        return from_file(kind, name)
    if (info := installed(kind, name)) is not None:
        return info
    known = [*STAGES[kind], *names(kind)]
    near = get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InvalidSpec(f"stages.{kind}", f"unknown stage {name!r}{hint}", ", ".join(known))
