"""ProCon: where the least work is left to do."""

from collections.abc import Mapping, Sequence

from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.resources import CPUS
from schedulearn.core.domain.shape import Shape
from schedulearn.core.policies.place.pack import fewest_nodes
from schedulearn.core.policies.stages import Board, FreeNode, Memory, Nodes, Place

_WORK = "procon.work"
_NOTHING = (0.0, 0)


class Procon(Place):
    """The node with the least remaining work: the time that its jobs still need at their present share, times their
    number. Nodes on which more of the cores is leased than the limit says are left out as long as there are others.
    """

    surveys = True

    def __init__(self, procon_cpu_limit: float = 0.8) -> None:
        self._limit = procon_cpu_limit

    def survey(self, board: Board, memory: Memory) -> None:
        """Note, for each node, the seconds that its jobs still need together, and how many they are."""
        jobs: dict[NodeName, list[Job]] = {node.name: [] for node in board.nodes()}
        for job in board.jobs():
            if job.yields:
                continue  # it has reached its target: what it still does is nobody's hurry
            for name in {placement.node for placement in job.placements} & jobs.keys():
                jobs[name].append(job)
        nodes = {node.name: node for node in board.nodes()}
        memory[_WORK] = {name: [_work(nodes[name], there, board), len(there)] for name, there in jobs.items()}

    def place(self, job: Job, shape: Shape, workers: int, nodes: Nodes, memory: Memory) -> list[NodeName] | None:
        work: Mapping[str, Sequence[float]] = memory.get(_WORK, {})
        able = [node for node in nodes if node.room_for(shape) >= workers]
        calm = [node for node in able if leased(node) <= self._limit] or able
        if not calm:
            return fewest_nodes(nodes, shape, workers)
        best = min(calm, key=lambda node: weight(work.get(node.name, _NOTHING)))
        memory[_WORK] = _with_one_more(work, best.name)
        return [best.name] * workers


def weight(work: Sequence[float]) -> tuple[float, float]:
    """What a node is judged by: the least first."""
    seconds, jobs = work
    return seconds * jobs, jobs


def leased(node: FreeNode) -> float:
    usable, free = node.amounts(CPUS)
    return (usable - free) / usable if usable > 0 else 0.0


def _work(node: FreeNode, jobs: Sequence[Job], board: Board) -> float:
    """Together they may want more cores than there are: then each gets on more slowly."""
    usable, _ = node.amounts(CPUS)
    wanted = sum(job.cpus for job in jobs)
    slower = max(1.0, wanted / usable) if usable > 0 else 1.0
    return slower * sum(_left(job, board) for job in jobs)


def _left(job: Job, board: Board) -> float:
    """Of one of which nothing is known: as long again as it has run."""
    left = board.facts.remaining(job, board.now)
    return left if left < float("inf") else job.ran.at(board.now)


def _with_one_more(work: Mapping[str, Sequence[float]], name: NodeName) -> dict[str, list[float]]:
    """Who has just been placed there counts for the next: with as much to do as the others have on average."""
    jobs = sum(count for _, count in work.values())
    usual = sum(seconds for seconds, _ in work.values()) / jobs if jobs else 1.0
    seconds, count = work.get(name, _NOTHING)
    return {**{other: list(known) for other, known in work.items()}, name: [seconds + usual, count + 1]}
