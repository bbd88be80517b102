"""Everything the control loop knows, indexed. Changed only by `apply` and `reconcile`; read by all."""

import heapq
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from schedulearn.control.ledger import Ledger
from schedulearn.control.queue import Queue
from schedulearn.domain.commands import Command
from schedulearn.domain.ids import JobId, NodeName, WorkerId
from schedulearn.domain.job import Attempt, HistoryEvent, Job, Lease
from schedulearn.domain.node import Node
from schedulearn.domain.states import FINISHED, JobState, Trigger, next_state
from schedulearn.policies.stages import Order


@dataclass(slots=True)
class Changes:
    """What changed since it was last taken: this is what the store must write, and then what must be done."""

    jobs: dict[JobId, Job] = field(default_factory=dict)
    attempts: dict[JobId, Attempt] = field(default_factory=dict)
    leases_added: list[Lease] = field(default_factory=list)
    leases_ended: list[WorkerId] = field(default_factory=list)
    nodes: dict[NodeName, Node] = field(default_factory=dict)
    history: list[HistoryEvent] = field(default_factory=list)
    forgotten: list[JobId] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.jobs or self.nodes or self.history or self.forgotten or self.leases_ended or self.attempts)


class State:
    """Jobs that are not finished (and finished ones that others wait for), their attempts, the ledger, the queue."""

    def __init__(self, order: Order, nodes: Iterable[Node] = (), leases: Iterable[Lease] = ()) -> None:
        self.jobs: dict[JobId, Job] = {}
        self.attempts: dict[JobId, Attempt] = {}  # the present one of each job that has one
        self.ledger = Ledger(nodes, leases)
        self.queue = Queue(order)
        self.dependants: dict[JobId, set[JobId]] = defaultdict(set)  # job -> jobs that wait for its end
        self.waits_for: dict[JobId, set[JobId]] = {}  # job -> unfinished jobs it depends on
        self.changes = Changes()
        self._timers: list[tuple[float, JobId]] = []

    # --- what `apply` and `reconcile` use ---

    def move(self, job: Job, trigger: Trigger, now: float, cause: str, **data: object) -> None:
        """Change a job's state by the table, and write it into its history."""
        job.state = next_state(job.state, trigger)
        job.reason = cause
        if job.state in FINISHED:
            job.finished_at = now
        self.touch(job)
        self.record(now, str(trigger), cause, job, state=job.state, data=data)

    def record(
        self,
        now: float,
        kind: str,
        cause: str,
        job: Job | None = None,
        *,
        node: NodeName | None = None,
        state: JobState | None = None,
        data: dict[str, object] | None = None,
    ) -> None:
        identity, attempt = (job.id, job.attempt or None) if job else (None, None)
        self.changes.history.append(HistoryEvent(now, kind, cause, identity, attempt, node, state, data or {}))

    def touch(self, job: Job) -> None:
        self.changes.jobs[job.id] = job

    def command(self, command: Command) -> None:
        self.changes.commands.append(command)

    def wake_for(self, job: Job, at: float) -> None:
        """Look at this job again at that time."""
        heapq.heappush(self._timers, (at, job.id))

    def due(self, now: float) -> list[JobId]:
        """The jobs whose timers have run out. A timer may be stale: whoever asks looks at the job itself."""
        due = []
        while self._timers and self._timers[0][0] <= now:
            due.append(heapq.heappop(self._timers)[1])
        return due

    # --- what everybody uses ---

    def next_timer(self) -> float | None:
        return self._timers[0][0] if self._timers else None

    def take_changes(self) -> Changes:
        changes, self.changes = self.changes, Changes()
        return changes

    def set_order(self, order: Order, now: float) -> None:
        self.queue = Queue(order, list(self.queue), now)
