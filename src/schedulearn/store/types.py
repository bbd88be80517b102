"""What goes into the store and comes out of it, beyond the domain's own types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypedDict

from schedulearn.core.domain.ids import AttemptId, DeviceId, JobId, NodeName, WorkerId
from schedulearn.core.domain.job import Attempt, HistoryEvent, Job, Lease
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.outcome import Outcome
from schedulearn.core.domain.states import StopReason
from schedulearn.core.domain.usage import Usage

JobSort = Literal["id", "priority", "submitted_at", "finished_at", "name", "user", "state"]
Source = Literal["report", "files", "pattern"]  # the first that has a metric is believed
UserRole = Literal["admin", "user"]
NoticeState = Literal["waiting", "sent", "given up"]


@dataclass(frozen=True, slots=True)
class Request:
    """Something the API asks of the scheduler; it is deleted in the cycle that has dealt with it."""

    serial: int
    kind: str  # e.g. "submit", "cancel"
    job: JobId | None
    data: dict[str, Any]
    by: str  # the user who asks
    at: float


@dataclass(frozen=True, slots=True)
class SavedState:
    """All that the scheduler needs to go on after a restart."""

    # Unfinished ones, and finished ones that those depend on, by id; or those that something has happened to since.
    jobs: list[Job]
    attempts: list[Attempt]  # the present attempt of each unfinished job, where it has not ended
    leases: list[Lease]
    nodes: list[Node]
    memory: dict[str, Any]  # the policy's own
    policy: dict[str, Any] | None  # the setting "policy"
    shares: dict[NodeName, dict[str, Any]] = field(default_factory=dict)  # what the share loop of a node remembers
    serial: int = field(default=0, compare=False)  # of the last event that is in it
    unfinished: frozenset[JobId] | None = None  # all of them, where jobs may have been deleted since


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one scheduling cycle changed. It is written whole or not at all."""

    fence: int  # the number that `take_role("scheduler", …)` gave
    jobs: list[Job] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)  # with their workers
    leases_added: list[Lease] = field(default_factory=list)
    leases_ended: list[WorkerId] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    events: list[HistoryEvent] = field(default_factory=list)
    forgotten: list[JobId] = field(default_factory=list)
    requests_done: list[int] = field(default_factory=list)  # serials
    memory: dict[str, Any] | None = None  # None: as it was
    leases_changed: list[Lease] = field(default_factory=list)  # the last one of a worker counts
    nodes_removed: list[NodeName] = field(default_factory=list)
    shares: Mapping[NodeName, Mapping[str, Any] | None] = field(default_factory=dict)  # those that changed; None: gone


class WorkerPlacement(NamedTuple):
    """Where one worker of a job's newest attempt has its lease."""

    rank: int
    node: NodeName
    devices: tuple[DeviceId, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is, by the metric that its spec names."""

    step: int
    metric: str
    value: float  # the latest; may be nan
    spark: tuple[float, ...]  # at most 24 values over the whole run, the latest last; may hold nan
    updated_at: float
    count: int = 0  # values that ever came


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as the API shows it."""

    job: Job
    attempts: int  # how many there were
    placement: tuple[WorkerPlacement, ...]  # now; by rank
    progress: Progress | None
    owner: int | None = None  # the id of the user that submitted it, as names may change hands


class StoredEvent(NamedTuple):
    serial: int
    event: HistoryEvent


class Point(NamedTuple):
    """One value of one metric. The values of one report share their `seq`; a later report has a greater one."""

    seq: int
    at: float
    step: int
    name: str
    value: float


class Found(NamedTuple):
    """What is new in the output of a worker."""

    worker: WorkerId
    offset: int  # how far it was searched for metrics, in bytes
    points: Sequence[Point] = ()


class OutputPlace(NamedTuple):
    """How far the output of a worker was searched for metrics."""

    offset: int  # in bytes; or GIVEN_UP
    tries: int  # to go on from there, none of which came to its end


GIVEN_UP = -1  # instead of an offset: this output is not searched any more


class Taken(NamedTuple):
    """What became of some points."""

    new: int  # that were taken in
    dropped: int = 0  # whose job has as many series as are kept of one


class CurvePoint(NamedTuple):
    step: int
    value: float  # may be nan
    at: float


@dataclass(frozen=True, slots=True)
class Series:
    """What is known of one metric of a job. All exact, however much of the curve was thinned away."""

    name: str
    source: Source
    count: int
    step: int  # of the last point
    last: float  # may be nan
    min: float | None  # None: no number was ever seen
    max: float | None
    updated_at: float


@dataclass(frozen=True, slots=True)
class Curve:
    series: Series
    points: list[CurvePoint]  # thinned; the first and the latest are always there


class Mark(NamedTuple):
    """How far the values of a job's metric were read."""

    metric: str
    known: int = 0  # values that came until then
    since: float = 0.0  # only those count that were measured from then on


class News(NamedTuple):
    """What came since a mark."""

    progress: Progress
    points: list[CurvePoint]  # those that are kept, in order; the latest is always there


class UsageSample(NamedTuple):
    """One look at one worker."""

    worker: WorkerId
    usage: Usage
    cpus: float | None = None  # cores in use since the look before


@dataclass(frozen=True, slots=True)
class WorkerUsage:
    """What is known of what one worker uses. All exact, however much of the curve was thinned away."""

    worker: WorkerId
    latest: Usage
    cpus: float | None  # cores in use between the last two looks
    memory_peak: int | None  # the most memory at any look
    points: tuple[Usage, ...] = ()  # thinned; the latest is the last


@dataclass(frozen=True, slots=True)
class UserRow:
    name: str
    role: UserRole
    uid: int | None = None  # run the user's jobs as; 0: as root; None: as service/common/identity.py says
    gid: int | None = None
    max_priority: int | None = None  # None: no cap
    id: int = 0  # never used twice, as names may be


class UserChanges(TypedDict, total=False):
    """The fields of a user that may change; those left out stay."""

    role: UserRole
    uid: int | None
    gid: int | None
    max_priority: int | None


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token, without the token: only its hash is kept."""

    id: int
    user: str
    label: str
    created_at: float
    attempt: AttemptId | None = None  # set: it is this attempt's own, good for its reports alone
    expires_at: float | None = None  # None: it does not end by itself

    def has_ended(self, now: float) -> bool:
        return self.expires_at is not None and self.expires_at <= now


@dataclass(frozen=True, slots=True)
class Actor:
    """The caller of an act, for the audit log."""

    name: str  # "": not known
    id: int | None  # users.id
    origin: str  # the address that the call came from
    at: float  # when it came


class AuditEntry(NamedTuple):
    """One line of the audit log."""

    serial: int
    at: float
    actor: str
    actor_id: int | None
    origin: str
    action: str  # e.g. job.cancel
    object: str  # e.g. job 17
    owner: str  # the user whose it is; "": none
    outcome: str  # done, or why it was refused
    data: dict[str, Any]


class Once(NamedTuple):
    """A submission that may be sent more than once, and makes one job."""

    owner: int  # users.id
    key: str
    digest: str  # of what was sent


@dataclass(frozen=True, slots=True)
class Subscription:
    """Where a user wants notices of the ends of their jobs sent."""

    addresses: tuple[str, ...] = ()
    given: tuple[str, ...] = ()  # those that an administrator gave: no rule needs to cover them
    secret: str = ""  # signs webhooks; "": none was made yet


class NewNotice(NamedTuple):
    """Something to tell one address."""

    user: str
    address: str
    content: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice, and what became of it until now."""

    serial: int
    user: str
    address: str
    content: dict[str, Any]
    created_at: float
    state: NoticeState
    tries: int
    due_at: float
    problem: str  # of the last try


class Span(NamedTuple):
    """A worker's time on its node."""

    worker: WorkerId
    node: NodeName
    devices: tuple[DeviceId, ...]
    started_at: float
    outcome: Outcome | None  # how it ended
    name: str  # of its job
    user: str
    stop: StopReason | None  # why its attempt was told to stop
    until: float | None  # None: it runs still


@dataclass(frozen=True, slots=True)
class Timeline:
    """Where and when workers ran."""

    spans: list[Span]  # the newest first
    total: int  # of all that match
    first_at: float | None  # when the first job that is kept was submitted; None: there is none
