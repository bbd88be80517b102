"""Bring jobs together that are spread over nodes, if the time that saves is worth the moves."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.shape import Shape
from schedulearn.core.domain.units import format_duration
from schedulearn.core.policies.place.hungarian import solve
from schedulearn.core.policies.place.solve import Piece, Problem
from schedulearn.core.policies.stages import Board, FreeNode, Memory, Moves

_LOOKED_AT = "consolidate.looked_at"
_FINE = 1000  # parts of a core that are counted: a solver counts in whole slots


@dataclass(slots=True)
class _Plan:
    to: dict[JobId, list[NodeName]] = field(default_factory=dict)
    saved: float = 0.0  # seconds, over all jobs
    cost: float = 0.0  # seconds, of all moves


class Consolidate:
    """All jobs that may move are placed anew, by the rules of `hungarian`, as if their places were free.

    A job on several nodes loses a part of its speed. The new placement is taken if the time that it saves, over what
    remains of all the jobs, is more than what all its moves cost. It looks again only after `consolidate_every`.
    """

    def __init__(self, consolidate_every: float = 300.0, locality_penalty: float | None = None) -> None:
        """`locality_penalty`: what to believe instead of what is known or assumed of each job."""
        self._every, self._penalty = consolidate_every, locality_penalty

    def migrate(self, board: Board, memory: Memory) -> Moves:
        if not (apart := [job for job in board.jobs() if self._loses(job, board)]):
            return Moves()
        earliest = memory.get(_LOOKED_AT, -math.inf) + self._every
        if board.now < earliest:
            return Moves(wake_at=earliest)
        nodes = list(board.nodes())
        jobs = _movable(board, {node.name for node in nodes})
        if not any(job in jobs for job in apart):
            return Moves(wake_at=board.now + self._every)  # they are only starting, or have saved nothing yet
        memory[_LOOKED_AT] = board.now
        whole = _Plan()
        for kind in dict.fromkeys(_kind(job.shape) for job in jobs):
            plan = self._plan(board, [job for job in jobs if _kind(job.shape) == kind], nodes)
            if plan.saved > plan.cost:
                whole = _Plan(whole.to | plan.to, whole.saved + plan.saved, whole.cost + plan.cost)
        if not whole.to or not board.fits(whole.to):
            return Moves()
        why = f"saves about {format_duration(whole.saved)}, costs {format_duration(whole.cost)}"
        return Moves(whole.to, why=why)

    def _plan(self, board: Board, jobs: Sequence[Job], nodes: Sequence[FreeNode]) -> _Plan:
        problem, plan = _problem(jobs, nodes), _Plan()
        found = solve(problem) or ()
        for job, piece, spread in zip(jobs, problem.jobs, found, strict=bool(found)):
            if spread != piece.now:
                plan.saved += self._left(job, board, len(piece.now)) - self._left(job, board, len(spread))
                plan.cost += board.facts.restart_cost(job)
                largest_part_first = sorted(spread.items(), key=lambda part: (-part[1], part[0]))
                plan.to[job.id] = [nodes[node].name for node, n in largest_part_first for _ in range(n)]
        return plan

    def _loses(self, job: Job, board: Board) -> bool:
        """Whether it loses something by where it is."""
        spread = len({placement.node for placement in job.placements})
        return spread > 1 and self._left(job, board, spread) > self._left(job, board, 1)

    def _left(self, job: Job, board: Board, nodes: int) -> float:
        """Seconds that the job still needs with the workers it has, on so many nodes; none if its target is reached."""
        if job.yields:
            return 0.0
        facts, now = board.facts, board.now
        penalty = self._penalty if self._penalty is not None else facts.locality_penalty(job)
        left = facts.remaining(job, now)
        if math.isfinite(left):
            speedup = facts.speedup(job)
            left *= speedup(job.shape.workers.want) / speedup(job.workers)
        else:
            left = job.ran.at(now)  # nothing is known: as long again as it has run
        return left / (1 - penalty) if nodes > 1 else left


def _movable(board: Board, open_nodes: set[NodeName]) -> list[Job]:
    """One with a worker on a node that takes no jobs stays: it would not be let back there."""
    return [
        job
        for job in board.jobs()
        if board.may_move(job) and all(placement.node in open_nodes for placement in job.placements)
    ]


# --- as a problem for the solver


def _kind(shape: Shape) -> tuple[object, ...]:
    """Shapes of one kind are after the same slots on the same nodes."""
    return shape.pool, shape.gpu_type, shape.container, shape.own_image


def _problem(jobs: Sequence[Job], nodes: Sequence[FreeNode]) -> Problem:
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


def _one_slot(shape: Shape) -> Shape:
    """What a solver counts: a GPU, or a small part of a core."""
    amount = 1.0 if shape.gpus else 1.0 / _FINE
    return replace(shape, per_worker=Resources({shape.pool: amount}), gpus=int(amount), slots=amount)
