"""Nodes ignored."""

from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.shape import Shape
from schedulearn.core.policies.place.pack import fewest_nodes
from schedulearn.core.policies.stages import Memory, Nodes, Place


class Count(Place):
    """Free slots are counted and nodes ignored, as simulators often do: wherever there is room."""

    def place(self, job: Job, shape: Shape, workers: int, nodes: Nodes, memory: Memory) -> list[NodeName] | None:
        return fewest_nodes(nodes, shape, workers)
