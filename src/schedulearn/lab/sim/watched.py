"""A migrate stage whose decisions are recorded."""

from schedulearn.core.policies.stages import Board, Memory, Migrate, Moves
from schedulearn.lab.sim.metrics import Recorder


class Watched:
    """Implements `policies.stages.Migrate`."""

    def __init__(self, stage: Migrate, recorder: Recorder) -> None:
        self._stage, self._recorder = stage, recorder

    def migrate(self, board: Board, memory: Memory) -> Moves:
        answer = self._stage.migrate(board, memory)
        self._recorder.moved(board.now, answer)
        return answer
