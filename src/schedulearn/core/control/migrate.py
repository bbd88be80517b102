"""Who should move? Asks the migrate stage after each decision, and turns its answer into stops and promises."""

from collections.abc import Iterator, Mapping, Sequence

from schedulearn.core.control import moves
from schedulearn.core.control.ledger import NodeLedger
from schedulearn.core.control.moves import Wish
from schedulearn.core.control.state import State
from schedulearn.core.control.stopping import stop_attempt
from schedulearn.core.domain.errors import BadPlan
from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.node import NodeState
from schedulearn.core.domain.states import JobState, StopReason
from schedulearn.core.policies.notes import Note
from schedulearn.core.policies.stages import Migrate, Moves


class Board:
    """Implements `policies.stages.Board` on the state."""

    def __init__(self, state: State, now: float) -> None:
        self.now, self.facts = now, state.facts
        self._state = state

    def jobs(self) -> list[Job]:
        numbers = sorted({*self._state.attempts, *self._state.pending})
        return [job for number in numbers if (job := self._state.jobs[number]).placements]

    def jobs_without_gpus(self) -> list[Job]:
        return [job for _, job in sorted(self._state.without_gpus.items())]

    def may_move(self, job: Job) -> bool:
        return job.state is JobState.RUNNING and job.is_preemptible

    def nodes(self) -> Iterator[NodeLedger]:
        return (node for node in self._state.ledger if node.node.state is NodeState.UP)

    def fits(self, to: Mapping[JobId, Sequence[NodeName]]) -> bool:
        wishes = [(self._state.jobs[number], names) for number, names in to.items()]
        alike = all(self._is_alike(job, names) for job, names in wishes)
        return alike and moves.find_placements(self._state.ledger, wishes) is not None

    def _is_alike(self, job: Job, names: Sequence[NodeName]) -> bool:
        """Whether it finds there what it has now. Its user may choose otherwise; a stage may not."""
        places = {*names, *(placement.node for placement in job.placements)}
        found = [self._state.ledger.node(name) for name in places]
        return job.shape.own_image or len({node.surroundings for node in found if node}) <= 1


def migrate(state: State, stage: Migrate, name: str, now: float) -> float | None:
    """Ask the stage and do what it says; when to ask it again. BadPlan, with nothing changed, if it may not be."""
    memory = dict(state.memory)
    board = Board(state, now)
    answer = stage.migrate(board, memory)
    wishes = _checked(state, board, answer)
    places = moves.find_placements(state.ledger, wishes)
    if places is None:
        raise BadPlan(f"the migrate stage {name} wants to move jobs to where there is no room")
    state.memory = memory
    for note in answer.notes:
        state.record(now, note.kind, note.words, _known(state, note), node=note.node, data=dict(note.data))
    if wishes:
        moves.promise(state, [(job, placements) for (job, _), placements in zip(wishes, places, strict=True)], now)
        for job, names in wishes:
            why = f"{name}: {answer.why}" if answer.why else name
            cause = f"moves to {', '.join(sorted(set(names)))} ({why})"
            stop_attempt(state, job, StopReason.MIGRATE, now, cause)
    return answer.wake_at


def _known(state: State, note: Note) -> Job | None:
    return state.jobs.get(note.job) if note.job is not None else None


def _checked(state: State, board: Board, answer: Moves) -> list[Wish]:
    wishes: list[Wish] = []
    for number, names in answer.to.items():
        job = state.jobs.get(number)
        if job is None or not board.may_move(job):
            raise BadPlan(f"job {number} may not be moved")
        if len(names) != job.workers:
            raise BadPlan(f"job {number} has {job.workers} workers, and was given {len(names)} places")
        wishes.append((job, names))
    return wishes
