"""Where the least work is left."""

from collections.abc import Mapping

from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.shape import Shape
from schedulearn.core.policies.loads import loads_of, usual_seconds
from schedulearn.core.policies.place.hungarian import Hungarian
from schedulearn.core.policies.place.pack import fewest_nodes
from schedulearn.core.policies.stages import Board, Memory, Nodes, Place

_WORK = "least_work.seconds"


class LeastWork(Place):
    """Each job on the machine that has the least work left. One that asks for GPUs shares none: it goes on as few nodes
    as possible, and where it fits tightest."""

    surveys = True
    _packed = Hungarian()

    def survey(self, board: Board, memory: Memory) -> None:
        """Note what is left to do on each machine."""
        memory[_WORK] = {name: sum(load.work for load in there) for name, there in loads_of(board, memory).items()}

    def place(self, job: Job, shape: Shape, workers: int, nodes: Nodes, memory: Memory) -> list[NodeName] | None:
        if shape.gpus:
            return self._packed.place(job, shape, workers, nodes, memory)
        work: Mapping[str, float] = memory.get(_WORK, {})
        able = [node for node in nodes if node.room_for(shape) >= workers]
        if not able:
            return fewest_nodes(nodes, shape, workers)
        best = min(able, key=lambda node: work.get(node.name, 0.0))
        memory[_WORK] = {**work, best.name: work.get(best.name, 0.0) + usual_seconds(memory)}
        return [best.name] * workers
