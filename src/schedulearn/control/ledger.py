"""The ledger is the truth: what is free follows from leases, never from utilisation."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from schedulearn.domain.errors import BadPlan
from schedulearn.domain.ids import DeviceId, NodeName, WorkerId
from schedulearn.domain.job import Lease
from schedulearn.domain.node import Device, Node, NodeState
from schedulearn.domain.resources import CPUS, GPUS, Resources
from schedulearn.domain.shape import Shape


class NodeLedger:
    """What one node has and what of it is free."""

    __slots__ = ("_free", "_free_devices", "closed", "node")

    def __init__(self, node: Node, leases: Iterable[Lease]) -> None:
        self.node = node
        self.closed = False  # kept free for somebody, in this decision
        self._free_devices = {d.id: d for d in node.devices if not d.outside_use}
        self._free = dict(node.usable.items())
        for lease in leases:
            self.take(lease.amounts, lease.devices)

    @property
    def name(self) -> NodeName:
        return self.node.name

    @property
    def free(self) -> Resources:
        return Resources(self._free)

    def room_for(self, shape: Shape) -> int:
        """How many workers of this shape still fit."""
        return 0 if self.closed else int(self.part_free(shape) + 1e-9)

    def part_free(self, shape: Shape) -> float:
        """The same before rounding: 0.5 says that half of what one worker needs is free."""
        if self.node.state is not NodeState.UP:
            return 0.0
        part = 1e9
        for name, amount in shape.per_worker.items():
            free = self._free_gpus(shape) if name == GPUS else self._free.get(name, 0.0)
            if name == CPUS and not shape.gpus:
                # Otherwise jobs that ask for no GPU would strand the free GPUs without a core to feed them.
                free -= self.node.cpus_per_gpu * len(self._free_devices)
            part = min(part, free / amount)
        return max(0.0, part)

    def pick_devices(self, shape: Shape) -> tuple[DeviceId, ...]:
        """The devices that the next worker of this shape would get."""
        return tuple(d.id for d in self._matching(shape)[: shape.gpus])

    def take(self, amounts: Resources, devices: Sequence[DeviceId]) -> None:
        for device in devices:
            self._free_devices.pop(device, None)
        for name, amount in amounts.items():
            self._free[name] = self._free.get(name, 0.0) - amount

    def give_back(self, amounts: Resources, devices: Sequence[DeviceId]) -> None:
        for device in self.node.devices:
            if device.id in devices and not device.outside_use:
                self._free_devices[device.id] = device
        for name, amount in amounts.items():
            self._free[name] = self._free.get(name, 0.0) + amount

    def has_free(self, devices: Sequence[DeviceId]) -> bool:
        return all(device in self._free_devices for device in devices)

    def _free_gpus(self, shape: Shape) -> int:
        return len(self._matching(shape)) if shape.gpu_type else len(self._free_devices)

    def _matching(self, shape: Shape) -> list[Device]:
        if not shape.gpus:
            return []
        # Always in the node's own order, whatever order they were given back in: equal inputs, equal decisions.
        free = [d for d in self.node.devices if d.id in self._free_devices]
        return [d for d in free if d.model == shape.gpu_type] if shape.gpu_type else free


class Ledger:
    """All nodes and all leases."""

    def __init__(self, nodes: Iterable[Node] = (), leases: Iterable[Lease] = ()) -> None:
        self.leases: dict[WorkerId, Lease] = {lease.worker: lease for lease in leases}
        self._nodes: dict[NodeName, NodeLedger] = {}
        for node in nodes:
            self.set_node(node)

    @property
    def nodes(self) -> Sequence[NodeLedger]:
        return list(self._nodes.values())

    def node(self, name: NodeName) -> NodeLedger | None:
        return self._nodes.get(name)

    def set_node(self, node: Node) -> None:
        """A node joined, or has something else now."""
        fresh = NodeLedger(node, (lease for lease in self.leases.values() if lease.node == node.name))
        self._nodes[node.name] = fresh

    def set_node_state(self, name: NodeName, state: NodeState) -> Node:
        ledger = self._nodes[name]
        ledger.node = replace(ledger.node, state=state)
        return ledger.node

    def take(self, lease: Lease) -> None:
        """Lease it; BadPlan, with nothing changed, if it is not free."""
        node = self._nodes.get(lease.node)
        if node is None:
            raise BadPlan(f"there is no node {lease.node!r}")
        if lease.worker in self.leases:
            raise BadPlan(f"worker {lease.worker} already has a lease")
        if not node.has_free(lease.devices) or not lease.amounts.fits_in(node.free):
            raise BadPlan(f"{lease.worker} does not fit on {lease.node}")
        node.take(lease.amounts, lease.devices)
        self.leases[lease.worker] = lease

    def release(self, worker: WorkerId) -> Lease | None:
        """Give back what the worker held, if anything."""
        lease = self.leases.pop(worker, None)
        if lease and (node := self._nodes.get(lease.node)):
            node.give_back(lease.amounts, lease.devices)
        return lease
