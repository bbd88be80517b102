"""Bring jobs together that are spread over nodes, if the time that saves is worth the moves."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.units import format_duration
from schedulearn.core.policies.migrate.anew import is_allowed, movable, of_one_kind, places_of, problem_of
from schedulearn.core.policies.solvers import branch_and_bound, genetic, hungarian
from schedulearn.core.policies.solvers.problem import Problem
from schedulearn.core.policies.stages import Board, FreeNode, Memory, Moves

HUNGARIAN, BRANCH_AND_BOUND, GENETIC = "hungarian", "branch-and-bound", "genetic"
_LOOKED_AT = "consolidate.looked_at"


@dataclass(slots=True)
class _Plan:
    to: dict[JobId, list[NodeName]] = field(default_factory=dict)
    saved: float = 0.0  # seconds, over all jobs
    cost: float = 0.0  # seconds, of all moves
    proven: bool = True  # whether the solver knows that there is no better assignment


class Consolidate:
    """All jobs that may move are placed anew by a solver, as if their places were free.

    A job on several nodes loses a part of its speed. The new placement is taken if the time that it saves, over what
    remains of all the jobs, is more than what all its moves cost. It looks again only after `consolidate_every`.

    `hungarian` packs, and binds what it has packed so that few workers move; it looks at no other packing.
    `branch-and-bound` finds the assignment with the fewest pairs across nodes and the fewest moves, if it needs no more
    than `states` steps. `genetic` searches for the same with a `population` over some `generations`, by a `seed`.
    """

    def __init__(
        self,
        consolidate_every: float = 300.0,
        locality_penalty: float | None = None,
        solver: str = HUNGARIAN,
        states: int = 20_000,
        population: int = 20,
        generations: int = 30,
        seed: int = 0,
    ) -> None:
        """`locality_penalty`: what to believe instead of what is known or assumed of each job."""
        self._every, self._penalty, self._solver, self._states = consolidate_every, locality_penalty, solver, states
        self._genes = {"seed": seed, "population": population, "generations": generations}

    def migrate(self, board: Board, memory: Memory) -> Moves:
        if not (apart := [job for job in board.jobs() if self._loses(job, board)]):
            return Moves()
        earliest = memory.get(_LOOKED_AT, -math.inf) + self._every
        if board.now < earliest:
            return Moves(wake_at=earliest)
        nodes = list(board.nodes())
        jobs = movable(board, nodes)
        if not any(job in jobs for job in apart):
            return Moves(wake_at=board.now + self._every)  # they are only starting, or have saved nothing yet
        memory[_LOOKED_AT] = board.now
        whole = _Plan()
        for alike in of_one_kind(jobs):
            plan = self._plan(board, alike, nodes)
            if plan.saved > plan.cost:
                proven = whole.proven and plan.proven
                whole = _Plan(whole.to | plan.to, whole.saved + plan.saved, whole.cost + plan.cost, proven)
        if not whole.to or not board.fits(whole.to):
            return Moves()
        why = f"saves about {format_duration(whole.saved)}, costs {format_duration(whole.cost)}"
        return Moves(whole.to, why=why if whole.proven else f"{why}; the search for the best was cut short")

    def _plan(self, board: Board, jobs: Sequence[Job], nodes: Sequence[FreeNode]) -> _Plan:
        problem, plan = problem_of(jobs, nodes), _Plan()
        found, plan.proven = self._solved(problem)
        if found is None or not is_allowed(jobs, found):
            return plan
        for job, piece, spread in zip(jobs, problem.jobs, found, strict=True):
            if spread != piece.now:
                plan.saved += self._left(job, board, len(piece.now)) - self._left(job, board, len(spread))
                plan.cost += board.facts.restart_cost(job)
                plan.to[job.id] = places_of(spread, nodes)
        return plan

    def _solved(self, problem: Problem) -> branch_and_bound.Answer:
        """Only a search that may be cut short says whether it was."""
        if self._solver == BRANCH_AND_BOUND:
            return branch_and_bound.solve(problem, self._states)
        found = genetic.solve(problem, **self._genes) if self._solver == GENETIC else hungarian.solve(problem)
        return branch_and_bound.Answer(found, proven=True)

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
