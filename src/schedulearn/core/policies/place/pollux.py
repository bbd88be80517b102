"""Where the allocate stage of the same name found the best places."""

from collections import Counter

from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.shape import Shape
from schedulearn.core.policies.place.pack import Pack
from schedulearn.core.policies.stages import Memory, Nodes

NOTE = "pollux"  # in the memory of the policy: by pool: {"at": time, "places": {job: [node of each worker]}}


class PolluxPlaces(Pack):
    """As it was noted if there is room; else as `pack`."""

    def place(self, job: Job, shape: Shape, workers: int, nodes: Nodes, memory: Memory) -> list[NodeName] | None:
        noted = memory.get(NOTE, {}).get(shape.pool, {}).get("places", {}).get(str(job.id), [])
        room = {node.name: node.room_for(shape) for node in nodes} if len(noted) == workers else {}
        if room and all(room.get(NodeName(name), 0) >= n for name, n in Counter(noted).items()):
            return [NodeName(name) for name in noted]
        return super().place(job, shape, workers, nodes, memory)
