"""What is known of a job, its attempts and their workers. The control loop changes it, the store keeps it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from schedulearn.core.domain.group import Group
from schedulearn.core.domain.ids import AttemptId, DeviceId, JobId, NodeName, WorkerId
from schedulearn.core.domain.outcome import Outcome
from schedulearn.core.domain.resources import GPUS, Resources
from schedulearn.core.domain.shape import Shape
from schedulearn.core.domain.spec import YIELD, JobSpec, Preemptible
from schedulearn.core.domain.states import JobState, StopReason


class Placement(NamedTuple):
    """Where one worker is."""

    node: NodeName
    devices: tuple[DeviceId, ...] = ()


class Move(NamedTuple):
    """A migration under way: from when its workers were told to stop until all of them run elsewhere."""

    since: float
    source: tuple[NodeName, ...]  # the nodes that it leaves, one for each worker
    to: tuple[Placement, ...]


def grouped(placements: Sequence[Placement]) -> Iterable[tuple[Placement, int]]:
    """Equal neighbours counted together: most jobs have all their workers in one place."""
    if not placements:
        return ()
    last, count = placements[0], len(placements)
    if count == 1 or placements.count(last) == count:
        return ((last, count),)
    groups, count = list[tuple[Placement, int]](), 0
    for placement in placements:
        if placement is last or placement == last:
            count += 1
        else:
            groups.append((last, count))
            last, count = placement, 1
    groups.append((last, count))
    return groups


class Accrual(NamedTuple):
    """A quantity that grows with time, kept as (value, since, rate) and computed only when read."""

    value: float = 0.0
    since: float = 0.0
    rate: float = 0.0

    def at(self, now: float) -> float:
        # A clock that was set back must not take away what was already counted.
        return self.value + self.rate * (now - self.since) if now > self.since else self.value

    def settle(self, now: float, rate: float) -> "Accrual":
        value, since, before = self
        return Accrual(value + before * (now - since) if before and now > since else value, now, rate)


@dataclass(slots=True)
class Job:
    """One job and all that the scheduler must remember of it.

    Changed by `core/control` alone; where it is and how large (the last fields) by its book (`core/control/book.py`).
    """

    id: JobId
    spec: JobSpec
    user: str
    submitted_at: float
    state: JobState = JobState.QUEUED
    reason: str = ""  # why it is in this state, in a few words
    priority: int = 50  # as it is now; the spec keeps what was asked
    deadline: float | None = None
    time_limit: float | None = None
    cpus_limit: float | None = None  # cores for each worker, set since it was submitted; None: as the spec says
    reached_at: float | None = None  # when its metric was first as good as its target
    attempt: int = 0  # number of the newest attempt
    restarts: int = 0  # failures that were answered by another attempt
    preemptions: int = 0
    migrations: int = 0  # that were completed
    migration_seconds: float = 0.0  # lost in them: from the stop until it ran again
    move: Move | None = None  # the one under way
    resizes: int = 0
    not_before: float = 0.0  # back-off: not started earlier
    queued_at: float = 0.0  # when it last joined the queue
    started_at: float | None = None  # first start
    finished_at: float | None = None
    ran: Accrual = Accrual()  # seconds with workers, pauses left out
    worked: Accrual = Accrual()  # the same at the size it wants: at half the speed half of them
    attained: Accrual = Accrual()  # device-seconds (core-seconds for a job without GPUs)
    beside: int = 0  # jobs without GPUs that had workers when it was submitted, if it has none either
    stop: StopReason | None = None  # why the present attempt is being stopped
    outcome: Outcome | None = None  # how the last attempt ended
    forget: bool = False  # delete it as soon as it has stopped
    resized_at: float = field(init=False, default=float("-inf"))  # when it last changed its size; not stored
    checkpointed: bool = field(init=False, default=False)  # a checkpoint of it was seen; found again after a restart
    order_state: Any = None  # the order stage's own note on it: plain JSON
    placements: tuple[Placement, ...] = field(
        init=False, default=()
    )  # where its workers are, or will be once others left
    suspended_at: tuple[Placement, ...] = field(
        init=False, default=()
    )  # where it is suspended: there it goes on, or nowhere
    cores: int = field(init=False, default=0)  # whole ones that it was given; 0: they are not counted
    shape: Shape = field(init=False)  # what it needs to run; derived from the spec, and from the cores it was given

    def __post_init__(self) -> None:
        self.shape = Shape.of(self.spec)

    @property
    def workers(self) -> int:
        """How many workers it has been promised; 0 while it waits."""
        return len(self.placements)

    @property
    def cpus_asked(self) -> float:
        """How many cores its user lets each worker use."""
        return self.spec.resources.cpus_max if self.cpus_limit is None else self.cpus_limit

    @property
    def cpus(self) -> float:
        """How many cores each worker may use."""
        return min(self.cpus_asked, self.cores) if self.cores else self.cpus_asked

    @property
    def is_preemptible(self) -> bool:
        """Whether it may be pre-empted and resized: it loses little by that."""
        asked = self.spec.preemptible
        return asked is Preemptible.YES or (asked is Preemptible.AUTO and self.checkpointed)

    @property
    def yields(self) -> bool:
        """Whether others go first: it has reached its target, and trains on only with what they leave."""
        return self.reached_at is not None and self.spec.target is not None and self.spec.target.then == YIELD

    @property
    def attempt_id(self) -> AttemptId:
        return AttemptId(self.id, self.attempt)


@dataclass(slots=True)
class Worker:
    """One process or container of an attempt."""

    id: WorkerId
    node: NodeName
    devices: tuple[DeviceId, ...] = ()
    started_at: float | None = None
    ended_at: float | None = None
    outcome: Outcome | None = None
    joined: int = 0  # the generation that it joined; 0: it was there from the beginning
    left_at: float | None = None  # it was told to leave, or was lost, while the others went on
    paused: bool = field(
        init=False, default=False, compare=False
    )  # it was suspended, and that was confirmed; not stored
    holds: Resources | None = field(init=False, default=None, compare=False)  # its lease; None: it has none

    @property
    def lease(self) -> "Lease | None":
        """A suspended worker holds no devices."""
        if self.holds is None:
            return None
        return Lease(self.id, self.node, self.holds, self.devices if GPUS in self.holds else ())


@dataclass(slots=True)
class Attempt:
    """One try to run a job: some workers on some nodes."""

    id: AttemptId
    created_at: float
    workers: list[Worker] = field(default_factory=list)
    stop: StopReason | None = None
    stop_asked_at: float | None = None
    ended_at: float | None = None
    generation: int = 0  # how often its workers have changed while it ran

    # Workers start and end in turn, as a rule: asking the last one first makes these questions quick.

    @property
    def all_started(self) -> bool:
        return all(w.started_at is not None for w in reversed(self.workers))

    @property
    def all_ended(self) -> bool:
        return all(w.ended_at is not None for w in reversed(self.workers))

    @property
    def stands_still(self) -> bool:
        """Whether all its members are paused."""
        for worker in self.workers:
            if not worker.paused and worker.left_at is None and worker.ended_at is None:
                return False
        return True

    @property
    def running(self) -> list[Worker]:
        return [w for w in self.workers if w.ended_at is None]

    # Workers come and go only in an attempt that is resized live; in all others the crew is all of them.

    @property
    def crew(self) -> list[Worker]:
        """Those who count: neither told to leave nor lost on the way."""
        return [w for w in self.workers if w.left_at is None]

    @property
    def members(self) -> list[Worker]:
        """Those of the crew who have not ended."""
        return [w for w in self.workers if w.left_at is None and w.ended_at is None]

    @property
    def leavers(self) -> list[Worker]:
        """Those who were told to leave, and have not ended yet."""
        return [w for w in self.workers if w.left_at is not None and w.ended_at is None]

    @property
    def finishing(self) -> bool:
        """Whether one of the crew has done its work: nobody joins any more."""
        return any(w.left_at is None and w.outcome is not None and w.outcome.ok for w in self.workers)

    @property
    def group(self) -> Group:
        return Group(self.generation, tuple(w.id.rank for w in self.crew))


class Lease(NamedTuple):
    """What one worker holds on one node, from before it starts until its end is confirmed; suspended, its memory."""

    worker: WorkerId
    node: NodeName
    amounts: Resources
    devices: tuple[DeviceId, ...] = ()


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """A line of the append-only log: what happened, when, and why. The store numbers it."""

    at: float
    kind: str  # e.g. "submitted", "started", "exited", "state", "node_lost", "policy_set"
    cause: str  # in words, for a person
    job: JobId | None = None
    attempt: int | None = None
    node: NodeName | None = None
    state: JobState | None = None  # the job's state after it, where it changed
    data: dict[str, object] = field(default_factory=dict)
