"""What the control loop is told. Each is a fact with its time; `control.apply` says what follows from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from schedulearn.core.domain.ids import AttemptId, JobId, NodeName, WorkerId
from schedulearn.core.domain.job import HistoryEvent, Job
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.outcome import Outcome
from schedulearn.core.domain.spec import Target
from schedulearn.core.domain.states import JobState
from schedulearn.core.domain.usage import Limits


@dataclass(frozen=True, slots=True)
class Event:
    at: float  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class Submitted(Event):
    job: Job
    ended: Mapping[JobId, JobState] = field(default_factory=dict)  # of those it depends on, the ones long finished


@dataclass(frozen=True, slots=True)
class WorkerStarted(Event):
    worker: WorkerId
    note: str = ""  # what its user should know of how it runs


@dataclass(frozen=True, slots=True)
class WorkerPaused(Event):
    """It stands still, as it was told: nothing of it computes any more."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class WorkerExited(Event):
    worker: WorkerId
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class AttemptStarted(Event):
    """All its workers at once; for executors that start them together."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class AttemptPaused(Event):
    """All its workers, at once."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class AttemptExited(Event):
    """All its workers that still ran, at once and alike."""

    attempt: AttemptId
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class LimitsSet(Event):
    """A worker's limits were changed while it ran, or could not be; then they are as they were."""

    worker: WorkerId
    limits: Limits  # in force now, as they were read back; what was asked where that failed
    problem: str = ""  # why they could not be changed; "" if they were
    threads_fixed: int | None = None  # so many threads it has, and cannot change that; None: they follow its limits
    automatic: bool = False  # no person asked for it: a share loop did, or the worker's group has another size


@dataclass(frozen=True, slots=True)
class Shared(Event):
    """The share loop of a machine has looked at it. What it set is in force already, or will be at once."""

    node: NodeName
    notes: tuple[HistoryEvent, ...] = ()  # what it did, and why
    memory: Mapping[str, Any] | None = None  # all that it must know after a restart: plain JSON; None: nothing
    fault: str = ""  # why the stage could not be followed: from now on nobody is limited there


@dataclass(frozen=True, slots=True)
class CheckpointSeen(Event):
    """From now on the job can be stopped without losing all it did."""

    job: JobId


@dataclass(frozen=True, slots=True)
class CancelAsked(Event):
    job: JobId
    by: str


@dataclass(frozen=True, slots=True)
class DeleteAsked(Event):
    """Stop it at once if it runs, then forget it."""

    job: JobId
    by: str


@dataclass(frozen=True, slots=True)
class PauseAsked(Event):
    job: JobId
    by: str


@dataclass(frozen=True, slots=True)
class ResumeAsked(Event):
    job: JobId
    by: str


@dataclass(frozen=True, slots=True)
class MigrateAsked(Event):
    """Save, stop, and go on over there with all workers."""

    job: JobId
    node: NodeName
    by: str


@dataclass(frozen=True, slots=True)
class UpdateAsked(Event):
    """New values; a field that is not named in `fields` stays as it is."""

    job: JobId
    by: str
    # priority, deadline, time_limit, cpus_limit; workers as a map of min, want and max; target of value and then
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TargetReached(Event):
    """Its metric is as good as was asked for."""

    job: JobId
    target: Target  # the one that was looked at: another may have been set meanwhile
    value: float  # the middle one of the latest values
    values: tuple[float, ...]  # those, the newest last


@dataclass(frozen=True, slots=True)
class DiskExceeded(Event):
    """Its files take more than it may have, or fill the service's disk."""

    job: JobId
    why: str
    grace: float | None = None  # seconds to end; None: as its spec says


@dataclass(frozen=True, slots=True)
class NodeSeen(Event):
    """A node joined, came back, or has something else now."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeLost(Event):
    node: NodeName
    why: str


@dataclass(frozen=True, slots=True)
class NodeProbed(Event):
    """The engine of a node that somebody wants to add was looked at."""

    name: NodeName
    node: Node | None  # as it was found; None: it cannot be used
    by: str
    request: str  # which request this answers
    problems: tuple[tuple[str, str], ...] = ()  # the field that is wrong, and why
    notes: tuple[str, ...] = ()  # what its administrator should know


@dataclass(frozen=True, slots=True)
class NodeGone(Event):
    """It has been lost for so long that its workers are given up: they go on elsewhere."""

    node: NodeName
    why: str


@dataclass(frozen=True, slots=True)
class RemoveNodeAsked(Event):
    """Forget the node; with `force` what runs there is stopped first and queued again."""

    node: NodeName
    by: str
    force: bool


@dataclass(frozen=True, slots=True)
class LabelsAsked(Event):
    """All labels that the node has from now on."""

    node: NodeName
    by: str
    labels: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DrainAsked(Event):
    node: NodeName
    by: str
    drain: bool  # False: take jobs again


@dataclass(frozen=True, slots=True)
class Tick(Event):
    """Time has passed: look at back-offs and time limits."""
