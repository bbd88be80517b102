"""What the API answers, version 1. Times are ISO 8601 in UTC, durations seconds, sizes bytes."""

from typing import Any, Literal

from pydantic import BaseModel

from schedulearn.core.domain.states import JobState


class PlacementOut(BaseModel):
    worker: str
    node: str
    devices: list[str]


class ExitOut(BaseModel):
    code: int | None
    signal: int | None
    ending: str
    text: str  # for a person


class ProgressOut(BaseModel):
    step: int
    steps: int | None  # in all, if known
    metric: str
    value: float | None  # null: the last value was not a number
    spark: list[float | None]
    updated_at: str
    eta_seconds: float | None


class WeightOut(BaseModel):
    expected: float
    low: float
    high: float
    unit: Literal["GPU-seconds", "core-seconds"]
    source: str  # where the estimate comes from, for a person


class SpeedUpOut(BaseModel):
    workers: int
    value: float  # so many times as fast as with one worker
    measured: bool  # false: of earlier jobs of its name


class JobOut(BaseModel):
    id: int
    name: str
    user: str
    yours: bool  # whether the caller may change it: as its owner, not as somebody of the same name
    state: JobState
    reason: str
    priority: int
    deadline: str | None
    time_limit: float | None
    cpus_limit: float | None  # cores for each worker, if that was changed after the submission
    reached_at: str | None  # when its target was reached; null: it was not, or there is none
    attempt: int  # 0: never started
    workers: int  # now
    placement: list[PlacementOut]
    submitted_at: str
    started_at: str | None
    finished_at: str | None
    queued_at: str
    run_seconds: float
    wait_seconds: float  # before its first start
    restarts: int
    preemptions: int
    migrations: int
    migration_seconds: float  # lost in them: from the stop until it ran again
    moving_to: list[str]  # nodes, while a migration is under way
    resizes: int
    exit: ExitOut | None
    progress: ProgressOut | None
    weight: WeightOut | None  # null in lists, and where nothing is known of jobs like it
    hint: str | None  # if it asks for far more, or less, than jobs like it; null in lists
    speedup: SpeedUpOut | None  # null in lists, and where nothing was measured
    checkpoint_at: str | None  # when one of its container was last brought to the service; null: never, or in lists
    spec: dict[str, Any]  # as its user may write it


class JobPage(BaseModel):
    jobs: list[JobOut]
    total: int  # of all that match


class DryRun(BaseModel):
    valid: Literal[True] = True
    spec: dict[str, Any]  # with every default filled in


class SeriesOut(BaseModel):
    name: str
    count: int
    last: float | None
    min: float | None
    max: float | None
    points: list[tuple[int, float | None, str]]  # step, value, time; thinned


class MetricsOut(BaseModel):
    series: list[SeriesOut]
    total: int  # metrics that the job has


class EventOut(BaseModel):
    serial: int
    at: str
    kind: str
    cause: str
    job: int | None
    attempt: int | None
    node: str | None
    state: JobState | None
    data: dict[str, Any]


class EventPage(BaseModel):
    events: list[EventOut]


class EstimateOut(BaseModel):
    start_seconds: float | None
    low: float | None
    high: float | None


class ExplanationOut(BaseModel):
    job: int
    state: JobState
    text: str
    position: int | None
    estimate: EstimateOut | None
    stage: str | None


class MoveOut(BaseModel):
    node: str
    problem: str | None  # why it cannot go there now; null: it can


class MovePage(BaseModel):
    moves: list[MoveOut]


class WorkerOut(BaseModel):
    worker: str
    node: str
    devices: list[str]
    started_at: str | None
    ended_at: str | None
    left_at: str | None  # when it was told to leave, or was lost, while the others went on
    exit: ExitOut | None


class AttemptOut(BaseModel):
    attempt: str
    created_at: str
    ended_at: str | None
    stop: str | None
    generation: int  # how often its workers have changed while it ran
    workers: list[WorkerOut]


class AttemptPage(BaseModel):
    attempts: list[AttemptOut]
    total: int


class DeviceOut(BaseModel):
    id: str
    kind: str
    model: str
    memory: int
    outside_use: str  # "": nobody outside uses it
    job: int | None


class SharingOut(BaseModel):
    stage: str
    limits: dict[str, float]  # cores by job; others may use all that their users allow
    problem: str  # why nobody is limited although the policy has another stage; "" if there is none


class NodeOut(BaseModel):
    name: str
    executor: str  # process, docker
    state: str
    problem: str  # why it does not answer; "" while it does
    lost_at: str | None  # since when
    address: str  # of its engine; "" where plain processes run
    version: str  # of its engine
    default_image: str  # for jobs that name none
    labels: dict[str, str]
    capacity: dict[str, float]
    reserved: dict[str, float]
    leased: dict[str, float]
    free: dict[str, float]
    devices: list[DeviceOut]
    jobs: list[int]
    storage: dict[str, Any] | None
    sharing: SharingOut | None  # null: fairly
    isolation: list[str]  # what separates the workers there from each other and from the machine, in words


class NewNodeOut(NodeOut):
    notes: list[str]  # what its administrator should know


class NodePage(BaseModel):
    nodes: list[NodeOut]


class PolicyOut(BaseModel):
    preset: str
    stages: dict[str, str]
    params: dict[str, Any]
    available: dict[str, Any]
    fault: dict[str, Any] | None
    sharing_problems: dict[str, str]  # by node: why its cores are shared fairly although the policy says otherwise


class HolderOut(BaseModel):
    """What a worker holds, and how much of it it uses; null where that is not known."""

    worker: str
    job: int
    node: str
    devices: list[str]
    leased: dict[str, float]
    cpus: float | None  # cores in use
    memory: int | None
    cpus_limit: float | None
    memory_limit: int | None


class WaitingOut(BaseModel):
    job: JobOut
    why: ExplanationOut


class PolicyInForce(BaseModel):
    preset: str
    stages: dict[str, str]
    fault: dict[str, Any] | None


class OverviewOut(BaseModel):
    at: str
    scheduler: Literal["running", "absent"]
    policy: PolicyInForce
    counts: dict[JobState, int]  # exact, however long the lists
    last_event: int
    nodes: list[NodeOut]
    holders: list[HolderOut]
    running: list[JobOut]  # starting, paused and stopping ones too; 200 at most
    waiting: list[WaitingOut]  # the head of the queue first; 20 at most
    finished: list[JobOut]  # the newest first; 10 at most


class SpanOut(BaseModel):
    """The time of one worker on its node."""

    worker: str
    job: int
    name: str  # of the job
    user: str
    node: str
    devices: list[str]
    started_at: str
    ended_at: str | None  # null: it runs still
    stop: str | None  # why its attempt was told to stop
    exit: ExitOut | None


class TimelineOut(BaseModel):
    at: str
    since: str
    until: str
    first_at: str | None  # when the first job that is kept was submitted
    spans: list[SpanOut]  # the newest first
    total: int  # of all that match


class StudyProgress(BaseModel):
    policy: str  # that is being replayed
    done: int  # jobs, of all policies together
    total: int  # 0 while the workload is being read


class StudyTable(BaseModel):
    columns: list[str]
    rows: list[list[str]]
    best: list[list[bool]]  # which cells are the best of their column; empty if nobody says


class StudyOut(BaseModel):
    name: str
    kind: str  # comparison, experiment, report
    title: str
    about: str
    user: str  # "": it was put into the data folder
    yours: bool  # whether the caller may end or delete it
    state: str  # running, done, failed, cancelled
    problem: str
    created_at: str
    ended_at: str | None
    has_report: bool
    progress: StudyProgress | None  # while it runs
    summary: StudyTable | None  # what the report says in short


class StudyPage(BaseModel):
    studies: list[StudyOut]


class LoginOut(BaseModel):
    code: str  # shown this once
    user: str
    expires_at: str


class UserOut(BaseModel):
    name: str
    role: str
    uid: int | None  # an account of the machine that jobs run as; null: a uid of the service's own
    gid: int | None
    root: bool  # whether plain processes run as root
    runs_as: str  # whom jobs run as in the end, in words
    max_priority: int | None


class NewUserOut(UserOut):
    notes: list[str]  # what an administrator should know


class UserPage(BaseModel):
    users: list[UserOut]


class TokenOut(BaseModel):
    id: int
    user: str
    label: str
    created_at: str
    expires_at: str | None  # a log-in to the page ends then, unless it is used before; null: never by itself


class TokenPage(BaseModel):
    tokens: list[TokenOut]


class NewTokenOut(BaseModel):
    id: int
    token: str  # shown this once
    user: str
    label: str


class Accepted(BaseModel):
    accepted: int  # values that were new
    dropped: int = 0  # values of metrics beyond those that are kept of a job


class GroupAnswer(BaseModel):
    """To a worker that asked to be let into its group. Without `group`: ask again, with the present members."""

    generation: int  # the newest that any worker has named
    group: str | None
    rank: int | None  # the worker's place in it
    size: int | None
    newest: int | None  # the place of the member that has come furthest
    differ: bool | None  # whether the others' states differ from that one's
    missing: list[int]  # members that do not wait yet
    over: bool  # the training has ended


class GroupWaiting(BaseModel):
    generation: int  # -1: nobody has asked yet
    waiting: list[int]


class GroupValues(BaseModel):
    values: dict[str, str]


class GroupTotal(BaseModel):
    value: int


class HealthOut(BaseModel):
    status: Literal["ok"] = "ok"
    version: str
    roles: list[str]
    scheduler: Literal["running", "absent"]
    database: Literal["ok", "not answering"]
    database_lost_since: str | None  # when it ceased to answer, or could not be written to any more
    time: str


class AuditOut(BaseModel):
    """Who did what to whose things, and from where."""

    serial: int
    at: str
    actor: str  # the caller's name then; "": nobody who is known, "job 17.2": that attempt's own token
    actor_id: int | None  # the user's id: a name may be given to somebody else
    origin: str  # the address that the call came from; "(forwarded)": as somebody in between, or the caller, says
    action: str  # such as job.cancel
    object: str  # such as job 17
    owner: str  # whose it is; "": nobody's
    outcome: str  # done, or: refused: why
    data: dict[str, Any]


class AuditPage(BaseModel):
    entries: list[AuditOut]  # the newest first
    next: int | None  # `before` of the next page; null: there are no more
