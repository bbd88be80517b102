"""A node is a machine that runs workers; a device is something on it that is leased whole."""

from dataclasses import dataclass, field
from enum import StrEnum

from schedulearn.domain.ids import DeviceId, NodeName
from schedulearn.domain.resources import Resources


class NodeState(StrEnum):
    UP = "up"  # takes jobs
    DRAINING = "draining"  # finishes what runs, takes nothing new
    LOST = "lost"  # does not answer


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
    executor: str = "process"  # which executor runs workers there
    capacity: Resources = field(default_factory=Resources)  # all it has; gpus equals the number of devices
    reserved: Resources = field(default_factory=Resources)  # kept for the node's own system
    cpus_per_gpu: float = 1.0  # kept free, for each free GPU, from jobs that ask for no GPU
    devices: tuple[Device, ...] = ()
    state: NodeState = NodeState.UP
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def usable(self) -> Resources:
        """What may be leased in all: reserved amounts and devices in outside use taken off."""
        outside = Resources({"gpus": sum(1 for d in self.devices if d.outside_use)})
        return self.capacity - self.reserved - outside
