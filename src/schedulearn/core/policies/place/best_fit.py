"""Where it fits tightest."""

from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.shape import Shape
from schedulearn.core.policies.place.pack import fewest_nodes
from schedulearn.core.policies.stages import Memory, Nodes, Place


class BestFit(Place):
    """The node that has the least room left for more of its kind; else as few nodes as possible."""

    def place(self, job: Job, shape: Shape, workers: int, nodes: Nodes, memory: Memory) -> list[NodeName] | None:
        able = [(room, node) for room, node in nodes.by_room(shape) if room >= workers]
        if not able:
            return fewest_nodes(nodes, shape, workers)
        tightest = min(able, key=lambda pair: pair[0])
        return [tightest[1].name] * workers
