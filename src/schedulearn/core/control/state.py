"""Everything the control loop knows, indexed. Changed by the modules of this package alone; read by all."""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schedulearn.core.control.allocation import Decision
from schedulearn.core.control.book import Book
from schedulearn.core.control.kinds import Kind
from schedulearn.core.control.queue import Queue
from schedulearn.core.domain.commands import Command
from schedulearn.core.domain.ids import AttemptId, JobId, NodeName
from schedulearn.core.domain.job import Attempt, HistoryEvent, Job, Worker
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.shape import Shape
from schedulearn.core.domain.states import FINISHED, JobState, Trigger, next_state
from schedulearn.core.policies.stages import Facts, KeyChanges, Memory, Order, Refusal

REGROW_AFTER = 30.0  # seconds before a job may grow that has lost a worker; doubled with each that an attempt loses
_ORDER = "order"  # whose memory it is
_BACKOFF_FIRST, _BACKOFF_MOST = 5.0, 600.0  # seconds


@dataclass(slots=True)
class Changes:
    """What changed since it was last taken: this is what the store must write, and then what must be done."""

    jobs: dict[JobId, Job] = field(default_factory=dict)
    attempts: dict[AttemptId, Attempt] = field(default_factory=dict)
    leases_added: list[Worker] = field(default_factory=list)
    leases_changed: list[Worker] = field(default_factory=list)
    leases_ended: list[Worker] = field(default_factory=list)
    nodes: dict[NodeName, Node] = field(default_factory=dict)
    nodes_removed: list[NodeName] = field(default_factory=list)
    history: list[HistoryEvent] = field(default_factory=list)
    shares: dict[NodeName, Mapping[str, Any] | None] = field(default_factory=dict)  # what share loops remember
    forgotten: list[JobId] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)

    def __bool__(self) -> bool:
        leases, nodes = self.leases_changed or self.leases_ended, self.nodes or self.nodes_removed
        return bool(self.jobs or nodes or self.history or self.forgotten or leases or self.attempts or self.shares)


class State(Book):
    """The book with its jobs, their attempts and the queue, and what has changed since it was last written."""

    def __init__(
        self,
        order: Order,
        facts: Facts,
        nodes: Iterable[Node] = (),
        memory: Memory | None = None,
        *,
        history: bool = True,
        regrow_after: float = REGROW_AFTER,
    ) -> None:
        super().__init__(nodes)
        self.attempts: dict[JobId, Attempt] = {}  # the present one of each job that has one
        self.regrow_after = regrow_after
        self.counts_cores = False  # does the policy give out whole cores? Then any container may grow while it runs
        self.queue = Queue(order, facts)
        self.facts = facts
        self.memory: Memory = memory if memory is not None else new_memory(order)  # the policy's own
        self.dependants: dict[JobId, set[JobId]] = defaultdict(set)  # job -> jobs that wait for its end
        self.waits_for: dict[JobId, set[JobId]] = {}  # job -> unfinished jobs it depends on
        self.changes = Changes()
        self.decided_at = float("-inf")
        self.last_stopped: Sequence[JobId] = ()  # those who lost their place in the last decision
        self.wake_at: float | None = None  # when to decide again although nothing happened
        self.migrate_at: float | None = None  # when to ask the migrate stage again, likewise
        self._refused: dict[Shape, tuple[JobId, Refusal]] = {}
        self._passed: frozenset[Kind] = frozenset()
        self.keeps_history = history
        self._turns_end = False  # are timers set for orders in which running jobs only have turns while others wait?
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
        if order.keeps_state:
            order.joined(job, now, self.memory)
            self.watch_order_state(job, now)
            self.touch(job)
        self.requeue(job, now)

    def requeue(self, job: Job, now: float) -> None:
        """The same for one that only gets its place in the queue again."""
        self.queue.add(job, now)
        if not self.stale:
            # Behind one of its own shape that was refused it cannot be the first to get something.
            hopeless = self._was_refused(job.shape) and not self.queue.is_head(job)
            self.stale = not hopeless or self.queue.order.key_changes is KeyChanges.ALWAYS

    def _was_refused(self, shape: Shape) -> bool:
        return shape in self._refused or (self.queue.kind_of(shape) in self._passed if self._passed else False)

    def rank_anew(self, job: Job, now: float) -> None:
        """Its place in the order may be another: by its priority, the order's note on it, or because it yields."""
        if job.id in self.queue:
            self.queue.add(job, now)
        self.adjustable[job.shape.pool].renew(job)
        if places := job.placements or job.suspended_at:
            self.changed_at(places)
        else:
            self.stale = True

    def set_order(self, order: Order, now: float, *, counts_cores: bool = False) -> None:
        self.counts_cores = counts_cores
        waiting = list(self.queue)
        self.queue = Queue(order, self.queue.facts)
        self.memory = new_memory(order)
        self._turns_end = False
        held = [job for pool in self.adjustable.values() for job in pool.values()]
        # The others, too: none may come back later with the note of another order, or with none.
        for job in {job.id: job for job in (*held, *waiting, *self.jobs.values())}.values():
            job.order_state = None
            if order.keeps_state:
                order.joined(job, now, self.memory)
                self.watch_order_state(job, now)
            if job.state in (JobState.STARTING, JobState.RUNNING):
                self.hold(job)
            self.touch(job)
        for job in waiting:
            self.queue.add(job, now)
        self.stale = True

    def decided(self, decision: Decision, now: float) -> None:
        self.decided_at = now
        self.last_stopped = decision.stops
        self._refused, self._passed = decision.refusals, frozenset(decision.passed)
        self.memory = decision.memory
        self.wake_at = decision.wake_at
        self.stale = self.slots_freed = False
        self.unsettled = set() if decision.settled else None

    # --- promises

    def hold(self, job: Job) -> None:
        """Say whether a policy may take away or change what this job, which has an attempt, has."""
        free = job.is_preemptible or self.queue.order.suspends or (self.counts_cores and job.shape.least_cores > 0)
        if job.placements and free and not (job.spec.resizes_live and self._is_finishing(job)):
            if job.id not in self.adjustable[job.shape.pool]:
                self.unsettle(job.placements)
            self.adjustable[job.shape.pool][job.id] = job
        else:
            self.adjustable[job.shape.pool].pop(job.id, None)

    def _is_finishing(self, job: Job) -> bool:
        attempt = self.attempts.get(job.id)
        return attempt is not None and attempt.finishing

    def lease(self, workers: Sequence[Worker], amounts: Resources) -> None:
        """From now on each of them holds this, and nothing else."""
        added = [worker for worker in workers if worker.holds is None]
        self.changes.leases_added += added
        self.changes.leases_changed += workers if not added else [w for w in workers if w.holds is not None]
        for worker in workers:
            worker.holds = amounts

    def end_leases(self, workers: Iterable[Worker]) -> None:
        ended = self.changes.leases_ended
        for worker in workers:
            if worker.holds is not None:
                worker.holds = None
                ended.append(worker)

    def withdraw(self, job: Job) -> None:
        """A suspended job no longer waits for its turn, or for others to leave. Its memory it keeps."""
        self.queue.remove(job.id)
        self.pending.pop(job.id, None)
        if job.placements:
            self.promise(job, ())
            self.adjustable[job.shape.pool].pop(job.id, None)
            self.stale = self.slots_freed = True

    # --- timers

    def wake_for(self, job: Job, at: float) -> None:
        """Look at this job again at that time."""
        heapq.heappush(self._timers, (at, job.id))

    def watch_order_state(self, job: Job, now: float) -> None:
        if self.queue.order.takes_turns and not self._turns_end:
            return
        at = self.queue.order.expires(job, now)
        if at is not None:
            self.wake_for(job, at)

    @property
    def order_state_changes(self) -> bool:
        """Whether a timer that has run out may be that of an order's note."""
        order = self.queue.order
        return order.keeps_state and (self._turns_end or not order.takes_turns)

    def watch_turns(self, now: float) -> None:
        """After a decision: where jobs take turns, somebody's turn ends only while somebody else waits."""
        before, self._turns_end = self._turns_end, bool(self.queue)
        if self.queue.order.takes_turns and self._turns_end and not before:
            for number in self.attempts:
                self.watch_order_state(self.jobs[number], now)

    def due(self, now: float) -> list[JobId]:
        """The jobs whose timers have run out. A timer may be stale: whoever asks looks at the job itself."""
        due = []
        while self._timers and self._timers[0][0] <= now:
            due.append(heapq.heappop(self._timers)[1])
        return due

    def next_timer(self) -> float | None:
        return self._timers[0][0] if self._timers else None

    def take_commands(self) -> list[Command]:
        """For who keeps nothing of all that has changed."""
        return self.take_changes().commands if self.changes.commands else []

    def take_changes(self) -> Changes:
        changes, self.changes = self.changes, Changes()
        return changes


def new_memory(order: Order) -> Memory:
    """An empty memory, signed: what another order has left, here or on jobs, is of no use."""
    return {_ORDER: type(order).__name__}


def belongs_to(memory: Memory, order: Order) -> bool:
    return bool(memory.get(_ORDER) == type(order).__name__)


def back_off(job: Job) -> float:
    """Seconds before a job that has failed so often is started again."""
    return float(min(_BACKOFF_FIRST * 2 ** (job.restarts - 1), _BACKOFF_MOST))
