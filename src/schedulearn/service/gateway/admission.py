"""Can what a user asks for be done at all? What never can is refused at once, with what would be right.

What is promised to other jobs only the scheduler knows: it looks again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from schedulearn.core.control.book import copy_at
from schedulearn.core.control.ledger import Ledger, NodeLedger
from schedulearn.core.control.moves import Destination, destinations, placements_on
from schedulearn.core.control.resizing import placements_within
from schedulearn.core.domain.errors import ExecutorError, ImpossibleRequest, InvalidSpec
from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.job import Job, Lease, Placement
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.resources import CPUS, GPUS, MEMORY, Resources
from schedulearn.core.domain.shape import Shape
from schedulearn.core.domain.spec import JobSpec, Launcher, Preemptible, Workers
from schedulearn.core.domain.states import WITH_WORKERS
from schedulearn.core.domain.units import format_size
from schedulearn.executors.common.folders import has_files
from schedulearn.executors.common.paths import JobPaths
from schedulearn.store import JobRow

_WORDS: dict[str, Callable[[float], str]] = {
    GPUS: lambda amount: f"{amount:g} GPU" + ("s" if amount != 1 else ""),
    CPUS: lambda amount: f"{amount:.4g} core" + ("s" if amount != 1 else ""),
    MEMORY: format_size,
}


def check_possible(spec: JobSpec, nodes: Sequence[Node]) -> None:
    """ImpossibleRequest if the job would not fit even if all nodes were empty. Without any node every job waits."""
    if not nodes:
        return
    shape = Shape.of(spec)
    empty = [NodeLedger(node.at_best) for node in nodes]
    _check_gpu_type(shape, nodes)
    for name in (GPUS, CPUS, MEMORY):
        _check_one(name, shape, empty)
    rooms = [ledger.room_for(shape) for ledger in empty]
    room = max(rooms) if shape.one_node else sum(rooms)
    if room == 0:
        wanted = ", ".join(_words(name, amount) for name, amount in shape.per_worker.items())
        raise ImpossibleRequest("resources", f"no single node has {wanted} together", "what one node has")
    if room < spec.workers.min:
        have = "they must be on one node, and the largest has" if shape.one_node else "all nodes together have"
        problem = f"at least {spec.workers.min} workers are asked for; {have} room for {room}"
        raise ImpossibleRequest("workers", problem, f"at most {room}")


def check_container(spec: JobSpec, nodes: Sequence[Node], allow_mounts: Sequence[str]) -> None:
    """InvalidSpec if no node could run it in a container, as it asks, or give it what it wants to mount."""
    docker = [node for node in nodes if node.executor == "docker"]
    for name in ("image", "setup", "mounts"):
        if getattr(spec, name) and nodes and not docker:
            raise InvalidSpec(name, "no node runs containers", "leave it out, or add a server: schedulearn nodes add")
    if nodes and not any(Shape.of(spec).suits(node) for node in nodes):
        raise InvalidSpec("image", "no node has a default image: name the image to run in", "the name of an image")
    if spec.mounts:
        _check_mounts(spec, allow_mounts)


def _check_mounts(spec: JobSpec, allow_mounts: Sequence[str]) -> None:
    from schedulearn.executors.docker.mounts import checked_mounts

    try:
        checked_mounts(spec.mounts, allow_mounts)
    except ExecutorError as error:
        allowed = _mounts_allowed(allow_mounts)
        raise InvalidSpec("mounts", str(error), allowed) from error


def _mounts_allowed(allow_mounts: Sequence[str]) -> str:
    """In words: of what jobs may write to only the whole."""
    words = [text.removesuffix(":rw") if text.endswith(":rw") else f"{text} and below" for text in allow_mounts]
    return ", ".join(words) or "none: see up --allow-mounts"


def _check_gpu_type(shape: Shape, nodes: Sequence[Node]) -> None:
    models = sorted({device.model for node in nodes for device in node.devices if device.model})
    if shape.gpu_type and shape.gpu_type not in models:
        allowed = ", ".join(models) or "no node has GPUs"
        raise ImpossibleRequest("resources.gpu_type", f"no node has a GPU of type {shape.gpu_type!r}", allowed)


def _check_one(name: str, shape: Shape, empty: Sequence[NodeLedger]) -> None:
    asked = shape.per_worker[name]
    most = max(_most(name, shape, ledger) for ledger in empty)
    alone = Resources({name: asked})
    if asked and not alone.fits_in(Resources({name: most})):
        problem = f"{_words(name, asked)} asked for each worker; the largest node has {_words(name, most)}"
        raise ImpossibleRequest(f"resources.{name}", problem, f"at most {_words(name, most)}")


def _most(name: str, shape: Shape, ledger: NodeLedger) -> float:
    """What one worker could get of this resource alone on the empty node."""
    if name == GPUS and shape.gpu_type:
        return float(sum(1 for device in ledger.node.devices if device.model == shape.gpu_type))
    kept = ledger.node.cpus_per_gpu * len(ledger.node.devices) if name == CPUS and not shape.gpus else 0.0
    return max(0.0, ledger.free[name] - kept)


def _words(name: str, amount: float) -> str:
    return _WORDS[name](amount) if name in _WORDS else f"{amount:g} {name}"


def check_cpus_limit(row: JobRow, limit: float | None, nodes: Sequence[Node]) -> None:
    """InvalidSpec if it is below what the job is guaranteed, or above what its node (or any, while it waits) has."""
    if limit is None:
        return
    here = {placement.node for placement in row.placement}
    low = row.job.spec.resources.cpus_min
    high = max((node.capacity[CPUS] for node in nodes if not here or node.name in here), default=low)
    if not low <= limit <= high:
        problem = f"{limit:g} cores are out of bounds: the job is guaranteed {low:g}, and its node has {high:g}"
        raise InvalidSpec("cpus_limit", problem, f"{low:g}..{high:g}, or null to go back to what was submitted")


def target_of(job: Job, asked: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What a target that names its metric means for this job; InvalidSpec if that is not the job's."""
    if asked is None:
        return None
    own = job.spec.metric.name
    if asked["metric"] != own:
        raise InvalidSpec("target", f"{asked['metric']!r} is not the job's metric", own)
    return {"value": asked["value"], "then": asked["then"]}


def workers_asked(spec: JobSpec, asked: Mapping[str, int]) -> Workers:
    """`want` alone: the rest is as it was."""
    return spec.workers.wanting(asked["want"]) if asked.keys() == {"want"} else Workers(**asked)


def check_workers(row: JobRow, workers: Workers, nodes: Sequence[Node], leases: Sequence[Lease], data: Path) -> None:
    """InvalidSpec or Conflict say why not."""
    spec = row.job.spec
    check_possible(replace(spec, workers=workers), nodes)
    if spec.launcher is Launcher.HOROVOD and spec.resources.gpus and workers.min < workers.max:
        problem = "a job of Horovod with GPUs cannot change its size: it keeps the devices it starts with"
        raise InvalidSpec("workers", problem, "one number")
    if row.job.state not in WITH_WORKERS:
        return
    ledger, job = _placed(row, nodes, leases)
    job.checkpointed = _may_have_checkpoint(row, nodes, data)
    placements_within(ledger, job, workers)


def _may_have_checkpoint(row: JobRow, nodes: Sequence[Node], data: Path) -> bool:
    """Of a container's checkpoint the scheduler knows more."""
    if row.job.spec.preemptible is not Preemptible.AUTO:
        return False
    here = {place.node for place in row.placement}
    contained = any(node.executor != "process" for node in nodes if node.name in here)
    return contained or has_files(JobPaths.of(data, row.job.id).checkpoint)


def check_move(row: JobRow, target: NodeName, nodes: Sequence[Node], leases: Sequence[Lease]) -> None:
    """InvalidSpec or Conflict say why not."""
    ledger, job = _placed(row, nodes, leases)
    placements_on(ledger, job, target)


def possible_moves(row: JobRow, nodes: Sequence[Node], leases: Sequence[Lease]) -> list[Destination]:
    """Every other node, and what would be said against it. Conflict if the job cannot be moved at all."""
    return destinations(*_placed(row, nodes, leases))


def _placed(row: JobRow, nodes: Sequence[Node], leases: Sequence[Lease]) -> tuple[Ledger, Job]:
    """What is free, and the job with where it is."""
    ledger = Ledger()
    for node in nodes:
        ledger.set_node(node, [(lease.amounts, lease.devices) for lease in leases if lease.node == node.name])
    return ledger, copy_at(row.job, (Placement(place.node, place.devices) for place in row.placement))
