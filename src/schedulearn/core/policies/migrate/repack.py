"""Voda's second half: whenever sizes have changed, jobs are packed anew."""

import math

from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.policies.migrate.anew import is_allowed, movable, of_one_kind, places_of, problem_of
from schedulearn.core.policies.solvers import hungarian
from schedulearn.core.policies.solvers.problem import moved_workers
from schedulearn.core.policies.stages import Board, Memory, Moves

_SIZES, _AT = "repack.sizes", "repack.at"


class Repack:
    """After each re-allocation all jobs that may move are packed anew, each on as few nodes as possible, and what was
    packed is bound to real nodes so that the fewest workers move. Whether that pays is not asked.

    It happens at most every `repack_every`; what is too soon is done then.
    """

    def __init__(self, repack_every: float = 30.0) -> None:
        self._every = repack_every

    def migrate(self, board: Board, memory: Memory) -> Moves:
        sizes = {str(job.id): job.workers for job in board.jobs()}
        if sizes == memory.get(_SIZES, {}):
            return Moves()
        earliest = memory.get(_AT, -math.inf) + self._every
        if board.now < earliest:
            return Moves(wake_at=earliest)
        memory[_SIZES], memory[_AT] = sizes, board.now
        to, workers = self._packed(board)
        if not to or not board.fits(to):
            return Moves()
        return Moves(to, why=f"sizes have changed; {workers} workers move")

    def _packed(self, board: Board) -> tuple[dict[JobId, list[NodeName]], int]:
        """Who goes where, and how many workers are then where they were not."""
        nodes = list(board.nodes())
        to: dict[JobId, list[NodeName]] = {}
        workers = 0
        for jobs in of_one_kind(movable(board, nodes)):
            problem = problem_of(jobs, nodes)
            found = hungarian.solve(problem)
            if found is None or not is_allowed(jobs, found):
                continue
            for job, piece, spread in zip(jobs, problem.jobs, found, strict=True):
                if spread != piece.now:
                    to[job.id] = places_of(spread, nodes)
                    workers += moved_workers(piece, spread)
        return to, workers
