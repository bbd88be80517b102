"""Fill one node before the next."""

from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.shape import Shape
from schedulearn.core.policies.stages import Memory, Nodes, Place


class Pack(Place):
    """The first node with room for all workers; else as few nodes as possible, those with most room first."""

    def place(self, job: Job, shape: Shape, workers: int, nodes: Nodes, memory: Memory) -> list[NodeName] | None:
        node = nodes.first_with_room(shape, workers)
        return [node.name] * workers if node else fewest_nodes(nodes, shape, workers)


def fewest_nodes(nodes: Nodes, shape: Shape, workers: int) -> list[NodeName] | None:
    """Spread the workers over as few nodes as possible: those with most room first, ties in their own order."""
    placed: list[NodeName] = []
    for room, node in nodes.by_room(shape):
        placed += [node.name] * min(room, workers - len(placed))
        if len(placed) == workers:
            return placed
    return None
