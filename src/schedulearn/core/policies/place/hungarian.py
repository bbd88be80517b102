"""As few nodes as possible."""

from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.shape import Shape
from schedulearn.core.policies.solvers.problem import Piece, Problem, best_fit_decreasing
from schedulearn.core.policies.stages import Memory, Nodes, Place


class Hungarian(Place):
    """New workers of one job: as few nodes as possible, the rest where it fits tightest.

    For one job on free slots nothing is better, whoever solves it; the solvers differ where many jobs are placed anew
    at once, as the migrate stages `consolidate` and `repack` do.
    """

    def place(self, job: Job, shape: Shape, workers: int, nodes: Nodes, memory: Memory) -> list[NodeName] | None:
        # Where equally many workers fit, the node with less to spare comes first and wins a tie.
        free = sorted(nodes.by_room(shape), key=lambda pair: pair[1].free_slots(shape.pool))
        found = best_fit_decreasing(Problem((Piece(workers),), tuple(room for room, _ in free)))
        if found is None:
            return None
        largest_part_first = sorted(found[0].items(), key=lambda part: (-part[1], part[0]))
        return [free[node][1].name for node, n in largest_part_first for _ in range(n)]
