"""As Kubernetes 1.17 does it by default: a baseline."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from heapq import heapify, heappop, heappush

from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.resources import CPUS, GPUS, MEMORY
from schedulearn.core.domain.shape import Shape
from schedulearn.core.policies.stages import Board, FreeNode, Memory, Nodes, Place

_UNNAMED = "k8s_default.unnamed"
_FULL = 100  # the highest score of each kind
_USUAL = {CPUS: 0.1, MEMORY: 200.0 * 2**20}  # what a pod is taken to request of what it does not name
_NAMED = {CPUS: 0.01, MEMORY: 1.0}  # a lease of less than that names nothing
Amounts = Sequence[float]  # cores, bytes


class K8sDefault(Place):
    """Each worker by itself goes to the node with the highest score, with the worker on it; it is never moved.

    A score is the mean free share of CPU and memory in percent (least allocated) plus 100 less the distance of the two
    in points (balanced allocation), in whole numbers: nodes that differ by little are equal. Equals draw lots. A worker
    that requests no CPU or memory counts as 0.1 cores or 200 MB.
    """

    surveys = True

    def __init__(self, seed: int = 0) -> None:
        """`seed`: other lots with each."""
        self._seed = seed

    def survey(self, board: Board, memory: Memory) -> None:
        """Note what counts on each node beside leases."""
        unnamed: dict[str, list[float]] = {}
        for job in board.jobs():
            if any(more := _unnamed(job.shape)):
                for placement in job.placements:
                    unnamed[placement.node] = _sum(unnamed.get(placement.node, (0.0, 0.0)), more)
        memory[_UNNAMED] = unnamed

    def place(self, job: Job, shape: Shape, workers: int, nodes: Nodes, memory: Memory) -> list[NodeName] | None:
        unnamed: dict[str, list[float]] = memory.get(_UNNAMED, {})
        more = _unnamed(shape)

        def entry(i: int, taken: int) -> tuple[int, bytes, int, int]:
            node = open_nodes[i][0]
            beside = _sum(unnamed.get(node.name, (0.0, 0.0)), more, taken)
            return -score(node, shape, taken, beside), self._lot(job.id, node.name, taken), i, taken

        open_nodes = [(node, room) for node in nodes if (room := node.room_for(shape)) > 0]
        heap = [entry(i, 1) for i in range(len(open_nodes))]
        heapify(heap)
        placed: list[NodeName] = []
        while heap and len(placed) < workers:
            _, _, i, taken = heappop(heap)
            node, room = open_nodes[i]
            placed.append(node.name)
            if taken < room:
                heappush(heap, entry(i, taken + 1))
        if len(placed) < workers:
            return None
        if any(more):
            memory[_UNNAMED] = _with(unnamed, placed, more)
        return placed

    def _lot(self, job: JobId, node: NodeName, worker: int) -> bytes:
        """The same for equal inputs, and without any order in it."""
        return blake2b(f"{self._seed} {job} {worker} {node}".encode(), digest_size=8).digest()


def score(node: FreeNode, shape: Shape, workers: int, beside: Amounts = (0.0, 0.0)) -> int:
    """How good the node would be with so many workers of this shape added: 0 to 200, more is better. `beside`: what
    counts there although nobody leases it, these workers' part included."""
    shares, unnamed = [], dict(zip(_USUAL, beside, strict=True))
    for name in _scored_resources(node, shape):
        usable, free = node.amounts(name)
        if usable > 0:
            requested = usable - free + workers * shape.per_worker[name] + unnamed.get(name, 0.0)
            shares.append(min(1.0, round(requested / usable, 9)))  # sums of fractions never add up exactly
    if not shares:
        return 0
    least_allocated = sum(_points(1.0 - share) for share in shares) // len(shares)
    return least_allocated + _points(1.0 - (max(shares) - min(shares)))


def _points(part: float) -> int:
    return int(round(part * _FULL, 6))


def _unnamed(shape: Shape) -> list[float]:
    """What one worker counts for beside its lease."""
    return [
        usual - shape.per_worker[name] if shape.per_worker[name] < _NAMED[name] else 0.0
        for name, usual in _USUAL.items()
    ]


def _sum(amounts: Amounts, more: Amounts, times: int = 1) -> list[float]:
    return [one + times * other for one, other in zip(amounts, more, strict=True)]


def _with(unnamed: dict[str, list[float]], placed: Iterable[NodeName], more: Amounts) -> dict[str, list[float]]:
    """Who was just placed counts for the next."""
    found = dict(unnamed)
    for name in placed:
        found[name] = _sum(found.get(name, (0.0, 0.0)), more)
    return found


def _scored_resources(node: FreeNode, shape: Shape) -> tuple[str, ...]:
    # Traces say nothing of cores: there GPUs are all that a node can be judged by.
    return (CPUS, MEMORY) if node.amounts(CPUS)[0] > 0 or not shape.gpus else (GPUS,)
