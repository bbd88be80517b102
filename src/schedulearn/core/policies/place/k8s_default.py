"""As Kubernetes does it by default: a baseline."""

from heapq import heapify, heappop, heappush

from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.resources import CPUS, GPUS, MEMORY
from schedulearn.core.domain.shape import Shape
from schedulearn.core.policies.stages import FreeNode, Memory, Nodes, Place

_CURSOR = "k8s_default.last"


class K8sDefault(Place):
    """Each worker by itself goes to the node with the least requested share of CPU and memory.

    A node's score is the mean free share (least allocated) plus how even the shares are (balanced allocation), with
    the worker on it. Kubernetes breaks ties by lot; here they go round, from job to job, so that equal inputs give
    equal decisions.
    """

    def place(self, job: Job, shape: Shape, workers: int, nodes: Nodes, memory: Memory) -> list[NodeName] | None:
        last = memory.get(_CURSOR, "")
        turn = sorted(nodes, key=lambda node: node.name <= last)
        open_nodes = [(node, room) for node in turn if (room := node.room_for(shape)) > 0]
        heap = [(-score(node, shape, 1), i, 1) for i, (node, _) in enumerate(open_nodes)]
        heapify(heap)
        placed: list[NodeName] = []
        while heap and len(placed) < workers:
            _, i, taken = heappop(heap)
            node, room = open_nodes[i]
            placed.append(node.name)
            if taken < room:
                heappush(heap, (-score(node, shape, taken + 1), i, taken + 1))
        if len(placed) < workers:
            return None
        memory[_CURSOR] = placed[-1]
        return placed


def score(node: FreeNode, shape: Shape, workers: int) -> float:
    """How good the node would be with so many workers of this shape added: 0 to 2, more is better."""
    shares = []
    for name in _scored_resources(node, shape):
        usable, free = node.amounts(name)
        if usable > 0:
            shares.append((usable - free + workers * shape.per_worker[name]) / usable)
    if not shares:
        return 0.0
    least_allocated = 1.0 - sum(shares) / len(shares)
    balanced = 1.0 - (max(shares) - min(shares)) / 2  # of two numbers, half the distance is the standard deviation
    return round(least_allocated + balanced, 9)  # sums of fractions never add up exactly, and a tie must be a tie


def _scored_resources(node: FreeNode, shape: Shape) -> tuple[str, ...]:
    # Traces say nothing of cores: there GPUs are all that a node can be judged by.
    return (CPUS, MEMORY) if node.amounts(CPUS)[0] > 0 or not shape.gpus else (GPUS,)
