"""Everything the control loop knows, indexed. Changed only by `apply` and `reconcile`; read by all."""

import heapq
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from schedulearn.control.contest import Decision
from schedulearn.control.ledger import Ledger
from schedulearn.control.queue import Queue
from schedulearn.domain.commands import Command
from schedulearn.domain.ids import AttemptId, JobId, NodeName, WorkerId
from schedulearn.domain.job import Attempt, HistoryEvent, Job, Lease, Spot
from schedulearn.domain.node import Node, NodeState
from schedulearn.domain.resources import CPUS, GPUS
from schedulearn.domain.shape import Shape
from schedulearn.domain.states import FINISHED, JobState, Trigger, next_state
from schedulearn.policies.stages import Facts, KeyChanges, Memory, Order, Refusal

_ORDER = "order"  # whose memory it is


@dataclass(slots=True)
class Changes:
    """What changed since it was last taken: this is what the store must write, and then what must be done."""

    jobs: dict[JobId, Job] = field(default_factory=dict)
    attempts: dict[AttemptId, Attempt] = field(default_factory=dict)
    leases_added: list[Lease] = field(default_factory=list)
    leases_ended: list[WorkerId] = field(default_factory=list)
    nodes: dict[NodeName, Node] = field(default_factory=dict)
    nodes_removed: list[NodeName] = field(default_factory=list)
    history: list[HistoryEvent] = field(default_factory=list)
    forgotten: list[JobId] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)

    def __bool__(self) -> bool:
        nodes = self.nodes or self.nodes_removed
        return bool(self.jobs or nodes or self.history or self.forgotten or self.leases_ended or self.attempts)


class State:
    """Jobs that are not finished, their attempts, what is promised and leased, and the queue."""

    def __init__(
        self,
        order: Order,
        facts: Facts,
        nodes: Iterable[Node] = (),
        memory: Memory | None = None,
        *,
        history: bool = True,
    ) -> None:
        self.jobs: dict[JobId, Job] = {}
        self.attempts: dict[JobId, Attempt] = {}  # the present one of each job that has one
        self.leases: dict[WorkerId, Lease] = {}  # what workers really hold
        self.ledger = Ledger(nodes)  # what is promised
        self.removing = {n.name for n in self.ledger if n.node.state is NodeState.REMOVING}
        self.holders: dict[str, dict[JobId, Job]] = {GPUS: {}, CPUS: {}}  # jobs whose promise a policy may change
        self.pending: dict[JobId, None] = {}  # promised, and waiting for others to leave; in order
        self.leaving: set[JobId] = set()  # being stopped, while their place is already promised to others
        self.queue = Queue(order, facts)
        self.facts = facts
        self.memory: Memory = memory if memory is not None else new_memory(order)  # the policy's own
        self.dependants: dict[JobId, set[JobId]] = defaultdict(set)  # job -> jobs that wait for its end
        self.waits_for: dict[JobId, set[JobId]] = {}  # job -> unfinished jobs it depends on
        self.changes = Changes()
        self.stale = True  # whether a decision now might differ from the last one
        self.slots_freed = False  # whether somebody has left since the last decision
        self.decided_at = float("-inf")
        self.wake_at: float | None = None  # when to decide again although nothing happened
        self.migrate_at: float | None = None  # when to ask the migrate stage again, likewise
        self._refused: dict[Shape, tuple[JobId, Refusal]] = {}
        self.keeps_history = history
        self._timers: list[tuple[float, JobId]] = []

    # --- jobs

    def move(self, job: Job, trigger: Trigger, now: float, cause: str, **data: object) -> None:
        """Change a job's state by the table, and write it into its history."""
        job.state = next_state(job.state, trigger)
        job.reason = cause
        if job.state in FINISHED:
            job.finished_at = now
        self.changes.jobs[job.id] = job
        if self.keeps_history:
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
        if self.keeps_history:
            identity, attempt = (job.id, job.attempt or None) if job else (None, None)
            self.changes.history.append(HistoryEvent(now, kind, cause, identity, attempt, node, state, data or {}))

    def touch(self, job: Job) -> None:
        self.changes.jobs[job.id] = job

    def command(self, command: Command) -> None:
        self.changes.commands.append(command)

    # --- the queue

    def enqueue(self, job: Job, now: float) -> None:
        """It may be started from now on."""
        order = self.queue.order
        if order.keeps_marks:
            order.joined(job, now, self.memory)
            self.watch_mark(job, now)
            self.touch(job)
        self.requeue(job, now)

    def requeue(self, job: Job, now: float) -> None:
        """The same for one that only gets its place in the queue again."""
        self.queue.add(job, now)
        if not self.stale:
            # Behind one of its own shape that was refused it cannot be the first to get something.
            hopeless = job.shape in self._refused and not self.queue.is_head(job)
            self.stale = not hopeless or self.queue.order.key_changes is KeyChanges.ALWAYS

    def set_order(self, order: Order, now: float) -> None:
        waiting = list(self.queue)
        self.queue = Queue(order, self.queue.facts)
        self.memory = new_memory(order)
        for job in (*(j for pool in self.holders.values() for j in pool.values()), *waiting):
            job.mark = None
            if order.keeps_marks:
                order.joined(job, now, self.memory)
                self.watch_mark(job, now)
            self.touch(job)
        for job in waiting:
            self.queue.add(job, now)
        self.stale = True

    def decided(self, decision: Decision, now: float) -> None:
        self.decided_at = now
        self._refused = decision.refusals
        self.memory = decision.memory
        self.wake_at = decision.wake_at
        self.stale = self.slots_freed = False

    # --- promises

    def promise(self, job: Job, spots: tuple[Spot, ...], *, fixed: bool = False) -> None:
        """Give the job these spots instead of those it has. They must be free."""
        for spot in job.spots:
            self.ledger.give_back(job.shape, spot)
        before, job.spots = job.spots, ()
        try:
            self.ledger.take_checked(job.shape, spots)
        except Exception:
            for spot in before:
                self.ledger.take(job.shape, spot)
            job.spots = before
            raise
        job.spots = spots
        if spots and not fixed:
            self.holders[job.shape.pool][job.id] = job

    def take_back(self, job: Job) -> None:
        """The job no longer has anything, and goes nowhere."""
        job.move = None
        if job.spots:
            for spot in job.spots:
                self.ledger.give_back(job.shape, spot)
            job.spots = ()
            self.holders[job.shape.pool].pop(job.id, None)
            self.stale = self.slots_freed = True
        self.pending.pop(job.id, None)

    # --- timers

    def wake_for(self, job: Job, at: float) -> None:
        """Look at this job again at that time."""
        heapq.heappush(self._timers, (at, job.id))

    def watch_mark(self, job: Job, now: float) -> None:
        at = self.queue.order.expires(job, now)
        if at is not None:
            self.wake_for(job, at)

    def due(self, now: float) -> list[JobId]:
        """The jobs whose timers have run out. A timer may be stale: whoever asks looks at the job itself."""
        due = []
        while self._timers and self._timers[0][0] <= now:
            due.append(heapq.heappop(self._timers)[1])
        return due

    def next_timer(self) -> float | None:
        return self._timers[0][0] if self._timers else None

    def take_changes(self) -> Changes:
        changes, self.changes = self.changes, Changes()
        return changes


def new_memory(order: Order) -> Memory:
    """An empty memory, signed: what another order has left, here or as marks on jobs, is of no use."""
    return {_ORDER: type(order).__name__}


def belongs_to(memory: Memory, order: Order) -> bool:
    return bool(memory.get(_ORDER) == type(order).__name__)
