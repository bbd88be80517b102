"""What the gateway is given and what it answers with, beyond the types of the domain and the store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# `as` the same: types of the store, of control and of estimates that the API may name only through here.
from schedulearn.core.control.explain import Explanation as Explanation
from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.ids import AttemptId, DeviceId, JobId, NodeName
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.states import JobState
from schedulearn.core.estimate.trust import SourceErrors as SourceErrors
from schedulearn.core.estimate.weight import Weight as Weight
from schedulearn.core.policies.catalogue.presets import DEFAULT_PRESET, build_policy
from schedulearn.service.common.roles import TTL
from schedulearn.store import Actor as Actor
from schedulearn.store import AuditFilter as AuditFilter
from schedulearn.store import Curve as Curve
from schedulearn.store import JobRow as JobRow
from schedulearn.store import Notice as Notice
from schedulearn.store import Point as Point
from schedulearn.store import Progress as Progress
from schedulearn.store import Span as Span
from schedulearn.store import StoredEvent as StoredEvent
from schedulearn.store import UserChanges as UserChanges
from schedulearn.store import UserRow as UserRow
from schedulearn.store import WorkerUsage as WorkerUsage
from schedulearn.store import acting as acting


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """A policy by name, with every stage spelled out."""

    preset: str
    stages: Mapping[str, str]
    params: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, preset: str | None, stages: Mapping[str, str], params: Mapping[str, Any]) -> "PolicyChoice":
        """In full (None: the default preset); InvalidSpec names what is unknown."""
        policy = build_policy(preset or DEFAULT_PRESET, stages, params)
        if policy.order.packs:
            field = "stages.order" if "order" in stages else "preset"
            problem = "two jobs on one device can only be simulated: a lease gives a device to one job"
            raise InvalidSpec(field, problem, "gandiva: the same, one after the other")
        return cls(preset or DEFAULT_PRESET, policy.stages, policy.params)


@dataclass(frozen=True, slots=True)
class PolicyView:
    choice: PolicyChoice
    available: dict[str, Any]
    fault: dict[str, Any] | None  # {"at", "error"}: why the policy could not decide last time
    sharing_problems: Mapping[NodeName, str] = field(default_factory=dict)  # why no job is limited on a node
    estimates: Mapping[str, SourceErrors] = field(default_factory=dict)  # how far off they were, by source


@dataclass(frozen=True, slots=True)
class Sharing:
    """How the cores of a node are shared."""

    stage: str
    limits: Mapping[JobId, float]  # cores; a job that is not in it may use all that its user allows
    problem: str  # why that is fair although the policy has another stage; "" if there is none

    @classmethod
    def of(cls, memory: Mapping[str, Any]) -> "Sharing":
        """From what the node's share loop remembers."""
        limits = {JobId(int(job)): cores for job, (_, cores) in memory["limits"].items()}
        return cls(memory["stage"], limits, memory.get("problem", ""))


@dataclass(frozen=True, slots=True)
class NodeView:
    node: Node
    free: Resources
    leased: Resources
    jobs: tuple[JobId, ...]
    device_jobs: Mapping[DeviceId, JobId]
    storage: dict[str, Any] | None  # bytes by what they are for
    sharing: Sharing | None = None  # None: fairly, as far as is known
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
class SpeedUpView:
    """How much faster a job is with more workers."""

    workers: int
    value: float  # against one worker
    measured: bool  # of this job itself at that size; False: of jobs of its name


@dataclass(frozen=True, slots=True)
class Advice:
    """What its user should know of a job."""

    weight: Weight | None = None  # None: nothing is known of jobs like it
    hint: str | None = None  # a sentence if it asks for far more, or less, than jobs like it
    speedup: SpeedUpView | None = None  # None: nothing was measured
    checkpoint_at: float | None = None  # when a checkpoint of its containers was last brought to the service
    errors: SourceErrors | None = None  # how far off such estimates of its weight were; None: never scored


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
