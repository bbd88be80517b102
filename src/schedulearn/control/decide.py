"""What should change: the stages of a policy put to work on what is free now."""

from copy import deepcopy
from dataclasses import dataclass, field

from schedulearn.control.ledger import Ledger, NodeLedger
from schedulearn.control.queue import Queue
from schedulearn.domain.errors import BadPlan
from schedulearn.domain.ids import DeviceId, JobId, NodeName
from schedulearn.domain.job import Job
from schedulearn.domain.shape import Shape
from schedulearn.policies.stages import HeldBehind, Memory, Place, Policy, Refusal

Spot = tuple[NodeName, tuple[DeviceId, ...]]  # where one worker goes


@dataclass(frozen=True, slots=True)
class Grant:
    """A waiting job is to start, with a spot for each worker."""

    job: JobId
    spots: tuple[Spot, ...]


@dataclass(slots=True)
class Decision:
    """Only what changes, plus one refusal for each blocked shape."""

    grants: list[Grant] = field(default_factory=list)
    refusals: dict[Shape, tuple[JobId, Refusal]] = field(default_factory=dict)
    wake_at: float | None = None  # when to decide again although nothing happened
    memory: Memory = field(default_factory=dict)


def decide(policy: Policy, queue: Queue, ledger: Ledger, now: float, memory: Memory) -> Decision:
    """Look, try and undo: neither the queue, the ledger nor the given memory is changed."""
    walk = queue.walk(now)
    room = TryRoom(ledger, policy.place, deepcopy(memory))
    try:
        wake_at = policy.allocate.allocate(walk, room, now)
    finally:
        room.undo()
        walk.end()
    return Decision(room.grants, room.refusals, wake_at, room.memory)


class TryRoom:
    """What is free in this decision. It takes from the ledger's own nodes and gives all of it back at the end."""

    def __init__(self, ledger: Ledger, place: Place, memory: Memory) -> None:
        self.grants: list[Grant] = []
        self.refusals: dict[Shape, tuple[JobId, Refusal]] = {}
        self.memory = memory
        self._ledger = ledger
        self._nodes = ledger.nodes
        self._place = place
        self._shapes: list[Shape] = []  # of the grants, one each
        self._reserved_for: JobId | None = None

    def grant(self, job: Job, workers: int) -> bool:
        names = self._place.place(job.shape, workers, self._nodes, self.memory)
        if names is None:
            return False
        for name in names:
            self._node(name)  # BadPlan before anything is taken
        self.grants.append(Grant(job.id, tuple(self._take(job.shape, name) for name in names)))
        self._shapes.append(job.shape)
        return True

    def reserve(self, job: Job, workers: int) -> None:
        missing = workers
        for node, possible in self._by_promise(job.shape):
            if missing <= 0:
                break
            node.closed = True
            missing -= possible
        self._reserved_for = job.id

    def refuse(self, job: Job, why: Refusal) -> None:
        if self._reserved_for is not None and not isinstance(why, HeldBehind):
            why = HeldBehind(self._reserved_for) if self._would_fit(job) else why
        self.refusals[job.shape] = (job.id, why)

    def undo(self) -> None:
        for node in self._nodes:
            node.closed = False
        for grant, shape in zip(self.grants, self._shapes, strict=True):
            for name, devices in grant.spots:
                self._node(name).give_back(shape.per_worker, devices)
        self._shapes.clear()

    def _take(self, shape: Shape, name: NodeName) -> Spot:
        node = self._node(name)
        devices = node.pick_devices(shape)
        node.take(shape.per_worker, devices)
        return name, devices

    def _would_fit(self, job: Job) -> bool:
        closed = [node for node in self._nodes if node.closed]
        for node in closed:
            node.closed = False
        fits = sum(node.room_for(job.shape) for node in self._nodes) >= job.shape.workers.want
        for node in closed:
            node.closed = True
        return fits

    def _by_promise(self, shape: Shape) -> list[tuple[NodeLedger, int]]:
        """Nodes that could hold some of it when empty, those that have most free for it now first."""
        able = [(node, NodeLedger(node.node, ()).room_for(shape)) for node in self._nodes]
        return sorted(((n, p) for n, p in able if p), key=lambda pair: -pair[0].part_free(shape))

    def _node(self, name: NodeName) -> NodeLedger:
        node = self._ledger.node(name)
        if node is None:
            raise BadPlan(f"the place stage chose a node that does not exist: {name}")
        return node
