"""Fill one node before the next."""

from collections.abc import Sequence

from schedulearn.domain.ids import NodeName
from schedulearn.domain.shape import Shape
from schedulearn.policies.stages import FreeNode, Memory


class Pack:
    """The first node with room for all workers; else as few nodes as possible, those with most room first."""

    def place(self, shape: Shape, workers: int, nodes: Sequence[FreeNode], memory: Memory) -> list[NodeName] | None:  # noqa: ARG002 - the protocol's
        rooms = [(node.room_for(shape), node) for node in nodes]
        for room, node in rooms:
            if room >= workers:
                return [node.name] * workers
        return fewest_nodes(rooms, workers)


def fewest_nodes(rooms: list[tuple[int, FreeNode]], workers: int) -> list[NodeName] | None:
    """Spread the workers over as few nodes as possible: those with most room first, ties in the given order."""
    placed: list[NodeName] = []
    for room, node in sorted(rooms, key=lambda pair: -pair[0]):
        placed += [node.name] * min(room, workers - len(placed))
        if len(placed) == workers:
            return placed
    return None
