"""All jobs that may move, placed anew by a solver as if their places were free."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.shape import Shape
from schedulearn.core.policies.solvers.problem import Assignment, Piece, Problem, Spread
from schedulearn.core.policies.stages import Board, FreeNode

_FINE = 1000  # parts of a core that are counted: a solver counts in whole slots


def movable(board: Board, nodes: Iterable[FreeNode]) -> list[Job]:
    """One with a worker on a node that takes no jobs stays: it would not be let back there."""
    open_nodes = {node.name for node in nodes}
    return [
        job
        for job in board.jobs()
        if board.may_move(job) and all(placement.node in open_nodes for placement in job.placements)
    ]


def of_one_kind(jobs: Iterable[Job]) -> list[list[Job]]:
    """Jobs of one kind are after the same slots on the same nodes: each kind is a problem of its own."""
    kinds: dict[tuple[object, ...], list[Job]] = {}
    for job in jobs:
        shape = job.shape
        kinds.setdefault((shape.pool, shape.gpu_type, shape.container, shape.own_image), []).append(job)
    return list(kinds.values())


def problem_of(jobs: Sequence[Job], nodes: Sequence[FreeNode]) -> Problem:
    """Jobs of one kind on what is free or held by them. Other resources are looked at when the answer is tried."""
    unit = _one_slot(jobs[0].shape)
    index = {node.name: i for i, node in enumerate(nodes)}
    pieces, capacity = [], [node.room_for(unit) for node in nodes]
    for job in jobs:
        slots = job.shape.gpus or math.ceil(job.shape.slots * _FINE)
        now = dict(Counter(index[placement.node] for placement in job.placements))
        pieces.append(Piece(job.workers, slots, now))
        for node, workers in now.items():
            capacity[node] += workers * slots
    return Problem(tuple(pieces), tuple(capacity))


def is_allowed(jobs: Iterable[Job], found: Assignment) -> bool:
    """Solvers may put a job on several nodes; not all jobs can be there."""
    return all(len(spread) == 1 or not job.shape.one_node for job, spread in zip(jobs, found, strict=True))


def places_of(spread: Spread, nodes: Sequence[FreeNode]) -> list[NodeName]:
    """A node for each worker, the largest part first."""
    largest_part_first = sorted(spread.items(), key=lambda part: (-part[1], part[0]))
    return [nodes[node].name for node, n in largest_part_first for _ in range(n)]


def _one_slot(shape: Shape) -> Shape:
    """What a solver counts: a GPU, or a small part of a core."""
    amount = 1.0 if shape.gpus else 1.0 / _FINE
    return replace(shape, per_worker=Resources({shape.pool: amount}), gpus=int(amount), slots=amount)
