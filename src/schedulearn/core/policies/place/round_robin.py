"""Rotate over the nodes, one job each."""

from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.shape import Shape
from schedulearn.core.policies.place.pack import fewest_nodes
from schedulearn.core.policies.stages import Memory, Nodes, Place

_CURSOR = "round_robin.last"


class RoundRobin(Place):
    """The next node, after the last one used, that has room for the whole job; else as few nodes as possible."""

    def place(self, job: Job, shape: Shape, workers: int, nodes: Nodes, memory: Memory) -> list[NodeName] | None:
        # The cursor is a name, not an index: nodes may come and go between two decisions.
        last = memory.get(_CURSOR, "")
        turn = sorted(nodes, key=lambda node: (node.name <= last, node.name))
        whole = next((node for node in turn if node.room_for(shape) >= workers), None)
        placed = [whole.name] * workers if whole else fewest_nodes(nodes, shape, workers)
        if placed:
            memory[_CURSOR] = placed[-1]
        return placed
