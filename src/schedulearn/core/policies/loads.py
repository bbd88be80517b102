"""How much is left to do on each machine: what placing and moving by work look at."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.resources import CPUS
from schedulearn.core.policies.stages import Board, FreeNode, Memory

_FIRST, _USUAL = "loads.first", "loads.usual"
_LATEST = 50  # jobs that tell how long a job usually takes


@dataclass(frozen=True, slots=True)
class Load:
    """A job as its machine feels it."""

    job: Job
    alone: float  # seconds that it still needs, if nobody is in its way
    work: float  # seconds of the whole machine that this takes
    known: bool = True  # or is it taken for a usual one?


def ends(loads: Sequence[Load]) -> tuple[float, float]:
    """The sum of the times until each has ended, and the last of them, if the shortest goes first."""
    total = last = passed = 0.0
    for load in sorted(loads, key=lambda load: (load.work, load.job.id)):
        passed += load.work
        total += max(passed, load.alone)
        last = max(last, passed, load.alone)
    return total, last


def loads_of(board: Board, memory: Memory) -> dict[NodeName, list[Load]]:
    """Who needs how much on each machine; nothing if nobody is there who shares one. Jobs with GPUs have theirs for
    themselves, and are left out.

    One that has reached its target needs nothing: it is in nobody's way, and nothing is gained by moving it.
    """
    jobs = board.jobs_without_gpus()
    times = {job.id: board.facts.remaining(job, board.now) for job in jobs}
    usual = _learn({job.id: times[job.id] for job in jobs if not job.yields}, memory)
    times |= {job.id: 0.0 for job in jobs if job.yields}
    nodes = {node.name: node for node in board.nodes()} if jobs else {}
    loads: dict[NodeName, list[Load]] = {name: [] for name in nodes}
    for job in jobs:
        known = times[job.id] < math.inf
        seconds = times[job.id] if known else usual
        for name in sorted({placement.node for placement in job.placements} & nodes.keys()):
            loads[name].append(Load(job, seconds, seconds * _part(job, nodes[name]), known))
    return loads


def usual_seconds(memory: Memory) -> float:
    """How long a job takes that has just come."""
    count, total = memory.get(_USUAL, (0, 0.0))
    return total / count if count else 1.0


def _learn(times: Mapping[JobId, float], memory: Memory) -> float:
    """The same, after another look: the mean of what was first known of each of the latest jobs."""
    first = {key: value for key, value in memory.get(_FIRST, {}).items() if JobId(int(key)) in times}
    count, total = memory.get(_USUAL, (0, 0.0))
    for job, seconds in times.items():
        if seconds < math.inf and str(job) not in first:
            first[str(job)] = seconds
            kept = min(count, _LATEST - 1)
            count, total = kept + 1, (total * kept / count if count else 0.0) + seconds
    memory[_FIRST], memory[_USUAL] = first, [count, total]
    return usual_seconds(memory)


def _part(job: Job, node: FreeNode) -> float:
    """The part of the machine that it can keep busy."""
    usable, _ = node.amounts(CPUS)
    workers = sum(placement.node == node.name for placement in job.placements)
    return min(1.0, job.cpus * workers / usable) if usable > 0 else 1.0
