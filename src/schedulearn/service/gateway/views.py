"""What the gateway is given and what it answers with, beyond the types of the domain and the store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# `as` the same: types of the store, of control and of estimates that the API may name only through here.
from schedulearn.core.control.explain import Explanation as Explanation
from schedulearn.core.domain.ids import AttemptId, DeviceId, JobId
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.states import JobState
from schedulearn.core.estimate.weight import Weight as Weight
from schedulearn.service.common.roles import TTL
from schedulearn.store import Actor as Actor
from schedulearn.store import AuditFilter as AuditFilter
from schedulearn.store import Curve as Curve
from schedulearn.store import JobRow as JobRow
from schedulearn.store import Point as Point
from schedulearn.store import Progress as Progress
from schedulearn.store import Span as Span
from schedulearn.store import StoredEvent as StoredEvent
from schedulearn.store import UserChanges as UserChanges
from schedulearn.store import UserRow as UserRow
from schedulearn.store import WorkerUsage as WorkerUsage
from schedulearn.store import acting as acting
from schedulearn.wire import types


@dataclass(frozen=True, slots=True)
class NodeView:
    node: Node
    free: Resources
    leased: Resources
    jobs: tuple[JobId, ...]
    device_jobs: Mapping[DeviceId, JobId]
    storage: dict[str, Any] | None  # bytes by what they are for
    sharing: types.Sharing | None = None  # None: fairly, as far as is known
    isolation: Sequence[str] = ()  # what separates the workers there from each other and from the machine


@dataclass(frozen=True, slots=True)
class Health:
    version: str
    roles: Sequence[str]
    scheduler_age: float | None  # seconds since the scheduler's last sign of life; None: there is no scheduler
    at: float
    scheduler_lives: bool | None = None  # as can be seen from here; None: its signs of life have to tell
    lost_since: float | None = None  # when the database ceased to answer; None: it answers

    @property
    def scheduler_runs(self) -> bool:
        if self.scheduler_lives is not None:
            return self.scheduler_lives
        return self.scheduler_age is not None and self.scheduler_age < TTL


@dataclass(frozen=True, slots=True)
class Advice:
    """What its user should know of a job."""

    weight: Weight | None = None  # None: nothing is known of jobs like it
    hint: str | None = None  # a sentence if it asks for far more, or less, than jobs like it
    speedup: types.SpeedUp | None = None  # None: nothing was measured
    checkpoint_at: float | None = None  # when a checkpoint of its containers was last brought to the service
    errors: types.SourceErrors | None = None  # how far off such estimates of its weight were; None: never scored


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Where a reader of a job's output is: which worker of which attempt, and how many bytes it has seen."""

    job: JobId
    attempt: int  # 0: there is none yet
    rank: int
    offset: int | None = None  # None: from the oldest that is kept


@dataclass(frozen=True, slots=True)
class JobPulse:
    """Just enough of a job to follow it."""

    state: JobState
    attempt: AttemptId  # the newest
    placed: bool  # whether that attempt still holds anything: no longer once all its workers have ended


@dataclass(frozen=True, slots=True)
class Counts:
    """The figures that monitoring asks for."""

    jobs: Mapping[JobState, int]
    nodes: Sequence[NodeView]
    last_event: int
    health: Health
    usage: Sequence[WorkerUsage]  # of workers that run
