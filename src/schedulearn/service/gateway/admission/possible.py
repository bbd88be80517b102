"""Could this job ever run? Asked at submit, so that an impossible job is refused at once and does not wait forever."""

from collections.abc import Callable, Sequence

from schedulearn.core.control.ledger import NodeLedger
from schedulearn.core.domain.errors import ExecutorError, ImpossibleRequest, InvalidSpec
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.resources import CPUS, GPUS, MEMORY, Resources
from schedulearn.core.domain.shape import Shape
from schedulearn.core.domain.spec import JobSpec
from schedulearn.core.domain.units import format_size

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
