"""Moves that pay, of jobs that share machines and of those with GPUs."""

from schedulearn.core.policies.migrate.balance import Balance
from schedulearn.core.policies.migrate.consolidate import Consolidate
from schedulearn.core.policies.stages import Board, Memory, Moves


class Tidy:
    """Jobs that are spread over nodes are brought together as `consolidate` does it; where there is nothing to bring
    together, work is moved to machines that have less to do, as `balance` does it.
    """

    def __init__(
        self, consolidate_every: float = 300.0, balance_every: float = 30.0, balance_rest: float = 60.0
    ) -> None:
        self._consolidate = Consolidate(consolidate_every)
        self._balance = Balance(balance_every, balance_rest)

    def migrate(self, board: Board, memory: Memory) -> Moves:
        together = self._consolidate.migrate(board, memory)
        if together.to:
            return together
        moves = self._balance.migrate(board, memory)
        wakes = [at for at in (together.wake_at, moves.wake_at) if at is not None]
        return Moves(moves.to, min(wakes, default=None), moves.why, moves.notes, moves.growth)
