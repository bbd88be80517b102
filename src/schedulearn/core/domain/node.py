"""A node is a machine that runs workers; a device is something on it that is leased whole."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from urllib.parse import urlsplit

from schedulearn.core.domain.ids import DeviceId, NodeName
from schedulearn.core.domain.resources import Resources

GPU_TYPE = "gpu-type"  # the label with which an administrator names the type of a node's GPUs
REACHED_AT = "address"  # the label that says under which name or address the other nodes reach it


class NodeState(StrEnum):
    UP = "up"  # takes jobs
    DRAINING = "draining"  # finishes what runs, takes nothing new
    PAUSED = "paused"  # answers, but can start nothing at present: `problem` says why; it goes on by itself
    LOST = "lost"  # does not answer
    REMOVING = "removing"  # what runs there is being stopped; then the node is forgotten


@dataclass(frozen=True, slots=True)
class Device:
    """Something that is leased whole, such as a GPU."""

    id: DeviceId
    kind: str = "gpus"  # the name of its resource
    model: str = ""  # what a job asks for as `gpu_type`, e.g. "A100"
    memory: int = 0  # bytes
    outside_use: str = ""  # who uses it outside the scheduler, in words; "" when nobody


@dataclass(frozen=True, slots=True)
class Node:
    """What a machine has. What is free follows from leases, not from here."""

    name: NodeName
    executor: str = "process"  # which executor runs workers there: process, docker
    capacity: Resources = field(default_factory=Resources)  # all it has; gpus equals the number of devices
    reserved: Resources = field(default_factory=Resources)  # kept for the node's own system
    cpus_per_gpu: float = 1.0  # kept free, for each free GPU, from jobs that ask for no GPU
    devices: tuple[Device, ...] = ()
    state: NodeState = NodeState.UP
    labels: tuple[tuple[str, str], ...] = ()
    address: str = ""  # of its engine, e.g. ssh://gpu2; "" where this machine runs plain processes
    default_image: str = ""  # for jobs that name none
    engine: str = ""  # the engine's own id: two addresses of one machine are found out
    version: str = ""  # of the engine, for a person
    drain: bool = False  # an administrator wants no new jobs there; stays so while the node is lost
    lost_at: float | None = None  # since when it does not answer
    problem: str = ""  # why it does not take jobs, for a person

    @property
    def usable(self) -> Resources:
        """What may be leased in all: reserved amounts and devices in outside use taken off."""
        outside = Resources({"gpus": sum(1 for d in self.devices if d.outside_use)})
        return self.capacity - self.reserved - outside

    @property
    def host(self) -> str:
        """Where the other nodes reach it; "" for this machine."""
        return dict(self.labels).get(REACHED_AT) or urlsplit(self.address).hostname or ""

    @property
    def at_best(self) -> "Node":
        """Answering, and with nobody outside on its devices. Both may come again."""
        devices = tuple(replace(device, outside_use="") for device in self.devices)
        return replace(self, state=NodeState.UP, devices=devices)

    @property
    def awake_state(self) -> NodeState:
        """The state while it answers."""
        if self.drain:
            return NodeState.DRAINING
        return NodeState.PAUSED if self.problem else NodeState.UP

    def labelled(self, labels: tuple[tuple[str, str], ...]) -> "Node":
        """The node with these labels. An engine does not tell the type of its GPUs; a label may."""
        model = dict(labels).get(GPU_TYPE)
        devices = tuple(replace(d, model=model) if model else d for d in self.devices)
        return replace(self, labels=labels, devices=devices)
