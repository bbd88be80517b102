"""The ledger is the truth: what is free follows from what was promised, never from utilisation.

A promise is made when a policy decides, and kept until the job has ended or another decision takes it back. What a
worker really holds is a lease; a promise becomes a lease as soon as whoever held the place before has left it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from schedulearn.core.domain.errors import BadPlan
from schedulearn.core.domain.ids import DeviceId, NodeName
from schedulearn.core.domain.job import Placement, grouped
from schedulearn.core.domain.node import Device, Node, NodeState
from schedulearn.core.domain.resources import CPUS, EPSILON, GPUS, Resources
from schedulearn.core.domain.shape import Shape


class NodeLedger:
    """What one node has and what of it is free."""

    __slots__ = ("_could_hold", "_free", "_free_devices", "_usable", "closed", "index", "node", "placement")

    def __init__(self, node: Node, index: int = 0) -> None:
        self.node = node
        self.index = index  # its place among all nodes
        self.placement = Placement(node.name)  # where a worker is that has no devices with ids; always this very one
        self.closed = False  # kept free for somebody, in this decision
        self._free_devices = {d.id: d for d in node.devices if not d.outside_use}
        self._usable = node.usable
        self._free = dict(self._usable.items())
        self._could_hold: dict[Shape, bool] = {}  # as far as it was asked

    def now_is(self, node: Node) -> None:
        """The same node in another state."""
        self.node = node
        self._could_hold.clear()

    @property
    def name(self) -> NodeName:
        return self.node.name

    @property
    def free(self) -> Resources:
        return Resources(self._free)

    @property
    def free_gpus(self) -> int:
        return int(self._free.get(GPUS, 0))

    def free_slots(self, pool: str) -> float:
        """What is free for jobs of this pool; 0 unless the node takes jobs."""
        if self.node.state is not NodeState.UP:
            return 0.0
        free = self._free.get(pool, 0.0)
        return free - self._kept() if pool == CPUS else free

    def amounts(self, resource: str) -> tuple[float, float]:
        """What the node has of a resource for jobs in all, and what of it is free."""
        return self._usable[resource], self._free.get(resource, 0.0)

    def room_for(self, shape: Shape) -> int:
        """How many workers of this shape still fit."""
        return 0 if self.closed else int(self.part_free(shape) + EPSILON)

    def part_free(self, shape: Shape) -> float:
        """The same before rounding: 0.5 says that half of what one worker needs is free."""
        if self.node.state is not NodeState.UP or not shape.suits(self.node):
            return 0.0
        part = 1e9
        for name, amount in shape.per_worker.items():
            if name == GPUS and shape.gpu_type:
                free = float(len(self._matching(shape)))
            else:
                free = self._free.get(name, 0.0)
            if name == CPUS and not shape.gpus:
                free -= self._kept()
            part = min(part, free / amount)
        return max(0.0, part)

    def could_hold(self, shape: Shape) -> bool:
        """Whether a worker of this shape would fit if nobody were there."""
        if shape not in self._could_hold:
            self._could_hold[shape] = NodeLedger(self.node).room_for(shape) > 0
        return self._could_hold[shape]

    @property
    def surroundings(self) -> str:
        """What a job that names no image finds there: the machine itself, or the node's own image."""
        return f"image {self.node.default_image}" if self.node.executor == "docker" else "machine"

    def pick_devices(self, shape: Shape) -> tuple[DeviceId, ...]:
        """The devices that the next worker of this shape would get; none where devices have no ids."""
        if not shape.gpus or not self.node.devices:
            return ()
        return tuple(d.id for d in self._matching(shape)[: shape.gpus])

    def take(self, amounts: Resources, devices: Sequence[DeviceId], count: int = 1) -> None:
        """So many times; where devices have ids no two workers have the same."""
        for device in devices:
            self._free_devices.pop(device, None)
        for name, amount in amounts.items():
            self._free[name] = self._free.get(name, 0.0) - amount * count

    def give_back(self, amounts: Resources, devices: Sequence[DeviceId], count: int = 1) -> None:
        if devices:
            for device in self.node.devices:
                if device.id in devices and not device.outside_use:
                    self._free_devices[device.id] = device
        for name, amount in amounts.items():
            self._free[name] = self._free.get(name, 0.0) + amount * count

    def remembered(self) -> tuple[dict[str, float], dict[DeviceId, Device]]:
        """What is free now, for `reset`."""
        return dict(self._free), dict(self._free_devices)

    def reset(self, before: tuple[dict[str, float], dict[DeviceId, Device]]) -> None:
        """What was tried on this node alone, past the indexes of the ledger, is undone."""
        self._free, self._free_devices = before

    def change_gpus(self, by: int) -> int:
        """So many more (or fewer) GPUs without ids are free; how many were before."""
        before = self._free[GPUS]
        self._free[GPUS] = before + by
        return int(before)

    def fits(self, amounts: Resources, devices: Sequence[DeviceId], count: int = 1) -> bool:
        """So many workers with this each; where devices have ids no two of them are alike."""
        if devices and (count > 1 or not all(d in self._free_devices for d in devices)):
            return False
        free = self._free
        for name, amount in amounts.items():
            if amount * count > free.get(name, 0.0) + EPSILON * max(1.0, amount):
                return False
        return True

    @property
    def is_short(self) -> bool:
        """Whether more is promised than there is."""
        return any(amount < 0 for amount in self._free.values())

    def _kept(self) -> float:
        # Otherwise jobs that ask for no GPU would strand the free GPUs without a core to feed them.
        return self.node.cpus_per_gpu * len(self._free_devices)

    def _matching(self, shape: Shape) -> list[Device]:
        # Always in the node's own order, whatever order they were given back in: equal inputs, equal decisions.
        free = [d for d in self.node.devices if d.id in self._free_devices]
        return [d for d in free if d.model == shape.gpu_type] if shape.gpu_type else free


class Ledger:
    """All nodes, with indexes: how much is free in each pool, and which nodes have how many free GPUs."""

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self._nodes: dict[NodeName, NodeLedger] = {}
        self._list: list[NodeLedger] = []
        self._slots: dict[str, float] = {}
        self._free: dict[str, float] = {}
        self._choosy = False  # whether a node does not suit every plain shape
        self._masks: list[int] = []  # for each number of free GPUs, the nodes that have just so many, as bits
        for node in nodes:
            self._put(node)
        self._index()

    # --- nodes

    def __iter__(self) -> Iterator[NodeLedger]:
        return iter(self._list)

    def __len__(self) -> int:
        return len(self._list)

    def node(self, name: NodeName) -> NodeLedger | None:
        return self._nodes.get(name)

    def set_node(self, node: Node, held: Iterable[tuple[Resources, Sequence[DeviceId]]] = ()) -> None:
        """A node joined, or has something else now; `held` is what jobs have been promised there."""
        fresh = self._put(node)
        for amounts, devices in held:
            fresh.take(amounts, devices)
        self._index()

    def _put(self, node: Node) -> NodeLedger:
        before = self._nodes.get(node.name)
        fresh = NodeLedger(node, before.index if before else len(self._list))
        if before:
            self._list[before.index] = fresh
        else:
            self._list.append(fresh)
        self._nodes[node.name] = fresh
        return fresh

    def set_node_state(self, name: NodeName, state: NodeState, **more: Any) -> Node:
        """Also what else is said of it (`more`: fields of the node), as long as what it has stays the same."""
        ledger = self._nodes[name]
        ledger.now_is(replace(ledger.node, state=state, **more))
        self._index()
        return ledger.node

    def remove_node(self, name: NodeName) -> None:
        del self._nodes[name]
        self._list = list(self._nodes.values())
        for index, ledger in enumerate(self._list):
            ledger.index = index
        self._index()

    # --- what is free

    def slots(self, pool: str) -> float:
        """What the nodes that take jobs have in all, free or not."""
        return self._slots[pool]

    def free_slots(self, pool: str) -> float:
        return self._free.get(pool, 0.0)

    def amounts(self, resource: str) -> tuple[float, float]:
        """What the nodes that take jobs have of a resource in all, and what of it is free."""
        each = [node.amounts(resource) for node in self._list if node.node.state is NodeState.UP]
        return sum(whole for whole, _ in each), sum(free for _, free in each)

    def uncounted_slots(self, pool: str) -> float:
        """Free, but not for newcomers: on draining nodes, or kept for the sake of free GPUs."""
        present = [node for node in self._list if node.node.state is not NodeState.LOST and not node.closed]
        return sum(max(0.0, node.amounts(pool)[1]) for node in present) - self.free_slots(pool)

    def take(self, shape: Shape, placement: Placement, count: int = 1) -> None:
        """So many workers with this placement each."""
        node = self._nodes[placement.node]
        if shape.plain and not node.node.devices:
            self._move(node, -shape.gpus * count)
            return
        self._out(node)
        node.take(shape.per_worker, placement.devices, count)
        self._in(node)

    def give_back(self, shape: Shape, placement: Placement, count: int = 1) -> None:
        node = self._nodes.get(placement.node)
        if node is None:
            return
        if shape.plain and not node.node.devices:
            self._move(node, shape.gpus * count)
            return
        self._out(node)
        node.give_back(shape.per_worker, placement.devices, count)
        self._in(node)

    def take_all(self, shape: Shape, placements: Sequence[Placement]) -> None:
        for placement, count in grouped(placements):
            self.take(shape, placement, count)

    def give_back_all(self, shape: Shape, placements: Sequence[Placement]) -> None:
        for placement, count in grouped(placements):
            self.give_back(shape, placement, count)

    def take_checked(self, shape: Shape, placements: Sequence[Placement]) -> None:
        """Take all of them; BadPlan, with nothing changed, if one is not free."""
        taken: list[Placement] = []
        for placement, count in grouped(placements):
            node = self._nodes.get(placement.node)
            if node is None or not node.fits(shape.per_worker, placement.devices, count):
                self.give_back_all(shape, taken)
                raise BadPlan(f"{'no node' if node is None else 'no room on'} {placement.node}")
            self.take(shape, placement, count)
            taken += (placement,) * count

    def set_closed(self, node: NodeLedger, closed: bool) -> None:
        self._out(node)
        node.closed = closed
        self._in(node)

    # --- what place stages ask for

    def first_with_room(self, shape: Shape, workers: int) -> NodeLedger | None:
        """The first node on which all the workers fit."""
        if shape.plain and not self._choosy:
            mask = 0
            for free in range(shape.gpus * workers, len(self._masks)):
                mask |= self._masks[free]
            return self._list[(mask & -mask).bit_length() - 1] if mask else None
        return next((node for node in self._list if node.room_for(shape) >= workers), None)

    def has_room(self, shape: Shape, workers: int) -> bool:
        """Whether so many fit, on whichever nodes."""
        for node in self._list:
            workers -= node.room_for(shape)
            if workers <= 0:
                return True
        return False

    def by_room(self, shape: Shape) -> Iterator[tuple[int, NodeLedger]]:
        """Nodes with room, those with most room first, ties in their own order. Take nothing while iterating."""
        if not shape.plain or self._choosy:
            rooms = [(node.room_for(shape), node) for node in self._list]
            yield from sorted(((r, n) for r, n in rooms if r), key=lambda pair: -pair[0])
            return
        room = len(self._masks)
        while room > 0:
            # All numbers of free GPUs that give the same number of workers count as one.
            room -= 1
            mask = self._masks[room]
            workers = room // shape.gpus
            while room and (room - 1) // shape.gpus == workers:
                room -= 1
                mask |= self._masks[room]
            while mask and workers:
                bit = mask & -mask
                yield workers, self._list[bit.bit_length() - 1]
                mask ^= bit

    def by_promise(self, shape: Shape) -> Iterator[tuple[int, NodeLedger]]:
        """Nodes that could hold some workers if they were empty, and how many; those with most free now first."""
        if not shape.plain or self._choosy:
            able = [(NodeLedger(node.node).room_for(shape), node) for node in self._list if not node.closed]
            yield from sorted(((r, n) for r, n in able if r), key=lambda pair: -pair[1].part_free(shape))
            return
        for mask in reversed(self._masks):
            while mask:
                bit = mask & -mask
                mask ^= bit
                node = self._list[bit.bit_length() - 1]
                if workers := int(node.amounts(GPUS)[0]) // shape.gpus:
                    yield workers, node

    def these(self, placements: Sequence[Placement]) -> Iterator[tuple[int, NodeLedger]]:
        """The nodes of these placements, and how many are on each."""
        for name, workers in Counter(placement.node for placement in placements).items():
            if (node := self._nodes.get(name)) and not node.closed:
                yield workers, node

    # --- indexes

    def _index(self) -> None:
        up = [node for node in self._list if node.node.state is NodeState.UP]
        self._slots = {pool: sum(node.amounts(pool)[0] for node in up) for pool in (GPUS, CPUS)}
        self._free = {}
        self._choosy = any(node.node.executor == "docker" and not node.node.default_image for node in self._list)
        most = max((node.free_gpus for node in self._list), default=0)
        capacity = max((int(node.node.capacity[GPUS]) for node in self._list), default=0)
        self._masks = [0] * (max(most, capacity) + 1)
        for node in self._list:
            self._in(node)

    def _move(self, node: NodeLedger, gpus: int) -> None:
        """The same as out, change, in, for what a simulator does all day: whole GPUs without ids."""
        before = node.change_gpus(gpus)
        if not node.closed and node.node.state is NodeState.UP:
            bit, masks = 1 << node.index, self._masks
            masks[before] &= ~bit
            masks[before + gpus] |= bit
            self._free[GPUS] += gpus

    def _in(self, node: NodeLedger) -> None:
        if node.closed or node.node.state is not NodeState.UP:
            return
        self._masks[max(0, node.free_gpus)] |= 1 << node.index
        for pool in (GPUS, CPUS):
            self._free[pool] = self._free.get(pool, 0.0) + node.free_slots(pool)

    def _out(self, node: NodeLedger) -> None:
        if node.closed or node.node.state is not NodeState.UP:
            return
        self._masks[max(0, node.free_gpus)] &= ~(1 << node.index)
        for pool in (GPUS, CPUS):
            self._free[pool] -= node.free_slots(pool)
