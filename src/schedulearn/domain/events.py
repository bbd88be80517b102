"""What the control loop is told. Each is a fact with its time; `control.apply` says what follows from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from schedulearn.domain.ids import AttemptId, JobId, NodeName, WorkerId
from schedulearn.domain.job import Job
from schedulearn.domain.node import Node
from schedulearn.domain.outcome import Outcome
from schedulearn.domain.states import JobState


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
class AttemptExited(Event):
    """All its workers that still ran, at once and alike."""

    attempt: AttemptId
    outcome: Outcome


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
class UpdateAsked(Event):
    """New values; a field that is not named in `fields` stays as it is."""

    job: JobId
    by: str
    fields: dict[str, float | int | None]  # priority, deadline, time_limit


@dataclass(frozen=True, slots=True)
class NodeSeen(Event):
    """A node joined, came back, or has something else now."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeLost(Event):
    node: NodeName
    why: str


@dataclass(frozen=True, slots=True)
class DrainAsked(Event):
    node: NodeName
    by: str
    drain: bool  # False: take jobs again


@dataclass(frozen=True, slots=True)
class Tick(Event):
    """Time has passed: look at back-offs and time limits."""
