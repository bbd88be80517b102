"""One look of SpeCon at the board."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.policies.migrate.categories import CONVERGED, Record
from schedulearn.core.policies.notes import Note
from schedulearn.core.policies.stages import Board, FreeNode


@dataclass(slots=True)
class Round:
    """What is on the board, what is remembered of each job on it, and what came of it."""

    board: Board
    records: dict[JobId, Record]
    nodes: Sequence[FreeNode]
    jobs: Mapping[NodeName, list[Job]]  # on each node that takes jobs, by number
    notes: list[Note] = field(default_factory=list)

    def home(self, job: Job) -> NodeName | None:
        """The node that holds all of it."""
        names = {placement.node for placement in job.placements}
        return names.pop() if len(names) == 1 else None

    def category(self, job: Job) -> str:
        """How it counts for others: one that has reached its target as converged, however much it still learns."""
        return CONVERGED if job.yields else str(self.records[job.id]["category"])

    def change(self, job: Job, **fields: object) -> None:
        self.records[job.id] = {**self.records[job.id], **fields}

    def fits(self, job: Job, node: NodeName) -> bool:
        return self.board.fits({job.id: [node] * job.workers})
