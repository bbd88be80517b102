"""What the service answers, version 1. All are plain dictionaries: what came is what you see.

Times are ISO 8601 texts in UTC, durations seconds, sizes bytes. The published description is made from these types.
"""

from typing import Annotated, Any, Literal, TypedDict

JobState = Literal["queued", "starting", "running", "paused", "stopping", "succeeded", "failed", "cancelled"]
FINISHED: tuple[JobState, ...] = ("succeeded", "failed", "cancelled")
Time = Annotated[str, "time"]


class Health(TypedDict):
    status: Literal["ok"]
    version: str
    roles: list[str]
    scheduler: Literal["running", "absent"]
    database: Literal["ok", "not answering"]
    database_lost_since: Time | None  # when it ceased to answer, or could not be written to any more
    time: Time


# --- jobs


class Placement(TypedDict):
    worker: str  # "17.2.0"
    node: str
    devices: list[str]


class Exit(TypedDict):
    code: int | None
    signal: int | None
    ending: str
    text: str  # for people


class Progress(TypedDict):
    step: int
    steps: int | None  # the total, if known
    metric: str
    value: float | None  # None: the last value was not a number
    spark: list[float | None]  # the curve in a few values
    updated_at: Time
    eta_seconds: float | None


class SourceErrors(TypedDict):
    """How far off estimates of one source were on this service."""

    source: str  # steps | loss curve
    count: int  # of the last jobs that it was scored on; 100 at most
    error: float  # half of them were off by more than this part of the truth
    without: float  # the same of what jobs like them told
    believed: bool  # False: what jobs like it told is used instead


class Weight(TypedDict):
    expected: float
    low: float
    high: float
    unit: Literal["GPU-seconds", "core-seconds"]
    source: str  # where the estimate comes from, for people
    errors: SourceErrors | None  # of that source; None: it was never scored


class SpeedUp(TypedDict):
    workers: int
    value: float  # so many times as fast as with one worker
    measured: bool  # False: of earlier jobs of its name


class Job(TypedDict):
    id: int
    name: str
    user: str
    yours: bool  # whether the caller may change it: as its owner, not as another user of the same name
    state: JobState
    reason: str
    priority: int
    deadline: Time | None
    time_limit: float | None
    cpus_limit: float | None  # cores for each worker, if that was changed after the submission
    reached_at: Time | None  # when its target was reached; None: it was not, or there is none
    attempt: int  # 0: never started
    workers: int  # now
    placement: list[Placement]
    submitted_at: Time
    started_at: Time | None
    finished_at: Time | None
    queued_at: Time
    run_seconds: float
    wait_seconds: float  # before its first start
    restarts: int
    preemptions: int
    migrations: int
    migration_seconds: float  # lost in them: from the stop until it ran again
    moving_to: list[str]  # nodes, while a migration is under way
    resizes: int
    exit: Exit | None
    progress: Progress | None
    weight: Weight | None  # None in lists, and where nothing is known of jobs like it
    hint: str | None  # if it asks for far more, or less, than jobs like it; None in lists
    speedup: SpeedUp | None  # None in lists, and where nothing was measured
    checkpoint_at: Time | None  # when one of its container was last brought to the service; None: never, or in lists
    spec: dict[str, Any]  # as its user may write it


class JobPage(TypedDict):
    jobs: list[Job]
    total: int  # of all that match, not only of this page


class Checked(TypedDict):
    """The answer to a submission that was only tried."""

    valid: Literal[True]
    spec: dict[str, Any]  # with every default filled in


class Series(TypedDict):
    name: str
    count: int
    last: float | None
    min: float | None
    max: float | None
    points: list[tuple[int, float | None, str]]  # step, value, time; thinned


class SeriesPage(TypedDict):
    series: list[Series]
    total: int  # metrics that the job has


class Look(TypedDict):
    """One look at a worker. Counters are since its start; null: its machine cannot tell."""

    at: Time
    cpus: float | None  # cores in use since the look before
    cpu_seconds: float
    memory: int | None
    read_bytes: int | None
    written_bytes: int | None
    received_bytes: int | None
    sent_bytes: int | None
    energy: float | None  # joules
    cpus_limit: float | None  # None: there is none
    weight: int | None
    memory_limit: int | None


class WorkerUsage(TypedDict):
    worker: str
    memory_peak: int | None
    latest: Look
    points: list[Look]  # thinned; `cpus` is the mean from one to the next


class UsagePage(TypedDict):
    attempt: str
    workers: list[WorkerUsage]
    total: int  # workers that there are


class Event(TypedDict):
    serial: int
    at: Time
    kind: str
    cause: str
    job: int | None
    attempt: int | None
    node: str | None
    state: JobState | None
    data: dict[str, Any]


class EventPage(TypedDict):
    events: list[Event]


class Estimate(TypedDict):
    start_seconds: float | None
    low: float | None
    high: float | None


class Explanation(TypedDict):
    job: int
    state: JobState
    text: str
    position: int | None
    estimate: Estimate | None
    errors: list[SourceErrors]  # of the estimates of running jobs that it may be made of; without one none
    stage: str | None
    size: str  # why it has so many workers; empty where there is nothing to say
    place: str  # why they are where they are, likewise


class PossibleMove(TypedDict):
    node: str
    problem: str | None  # why it cannot go there now; None: it can


class MovePage(TypedDict):
    moves: list[PossibleMove]


class AttemptWorker(TypedDict):
    worker: str
    node: str
    devices: list[str]
    started_at: Time | None
    ended_at: Time | None
    left_at: Time | None  # when it was told to leave, or was lost, while the others went on
    exit: Exit | None


class Attempt(TypedDict):
    attempt: str  # "17.2"
    created_at: Time
    ended_at: Time | None
    stop: str | None
    generation: int  # how often its workers have changed while it ran
    workers: list[AttemptWorker]


class AttemptPage(TypedDict):
    attempts: list[Attempt]
    total: int


# --- nodes and policy


class Device(TypedDict):
    id: str
    kind: str
    model: str
    memory: int
    outside_use: str  # "": nothing outside uses it
    job: int | None


class Sharing(TypedDict):
    stage: str
    limits: dict[str, float]  # cores by job; others may use all that their users allow
    problem: str  # why nothing is limited although the policy has another stage; "" if there is none


class Node(TypedDict):
    name: str
    executor: str  # process | docker
    state: str  # up | draining | lost | removing
    problem: str  # why it does not answer; "" while it does
    lost_at: Time | None
    address: str  # of its engine; "" where plain processes run
    version: str  # of its engine
    default_image: str  # for jobs that name none
    labels: dict[str, str]
    capacity: dict[str, float]
    reserved: dict[str, float]
    leased: dict[str, float]
    free: dict[str, float]
    devices: list[Device]
    jobs: list[int]
    storage: dict[str, Any] | None
    sharing: Sharing | None  # None: fairly
    isolation: list[str]  # what separates the workers there from each other and from the machine, in words


class NewNode(Node):
    notes: list[str]  # what its administrator should know


class NodePage(TypedDict):
    nodes: list[Node]


class Holder(TypedDict):
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


class Waiting(TypedDict):
    job: Job
    why: Explanation


class PolicyInForce(TypedDict):
    preset: str
    stages: dict[str, str]
    fault: dict[str, Any] | None


class Overview(TypedDict):
    at: Time
    scheduler: Literal["running", "absent"]
    policy: PolicyInForce
    counts: dict[JobState, int]  # of jobs; exact, however long the lists
    last_event: int
    nodes: list[Node]
    holders: list[Holder]
    running: list[Job]  # starting, paused and stopping ones too; 200 at most
    waiting: list[Waiting]  # the head of the queue first; 20 at most
    finished: list[Job]  # the newest first; 10 at most


class Span(TypedDict):
    """The time of one worker on its node."""

    worker: str  # "17.2.0"
    job: int
    name: str  # of the job
    user: str
    node: str
    devices: list[str]
    started_at: Time
    ended_at: Time | None  # None: it runs still
    stop: str | None  # why its attempt was told to stop
    exit: Exit | None


class Timeline(TypedDict):
    at: Time
    since: Time
    until: Time
    first_at: Time | None  # when the first job that is kept was submitted
    spans: list[Span]  # the newest first
    total: int  # of all that match


class Policy(TypedDict):
    preset: str
    stages: dict[str, str]
    params: dict[str, Any]
    available: dict[str, Any]
    fault: dict[str, Any] | None
    sharing_problems: dict[str, str]  # by node: why its cores are shared fairly although the policy says otherwise
    estimates: list[SourceErrors]  # by source of what was told of jobs while they ran


# --- comparisons and reports


class StudyProgress(TypedDict):
    policy: str  # that is being replayed
    done: int  # jobs, of all policies together
    total: int  # 0 while the workload is being read


class StudyTable(TypedDict):
    columns: list[str]
    rows: list[list[str]]
    best: list[list[bool]]  # which cells are the best of their column; empty if the report does not say


class Finish(TypedDict):
    """Seconds from the moment of a prediction, with the range in which they lie as far as estimates tell."""

    low: float
    expected: float
    high: float


class PredictedJob(TypedDict):
    job: int
    name: str
    user: str
    state: JobState
    source: str | None  # what its estimate was made from; null: nothing is known of it, and a duration was assumed
    speedup_assumed: bool  # it may change its size, and what that brings was never measured
    finishes: dict[str, Finish | None]  # by policy; null: it does not end, as far as can be seen


class Prediction(TypedDict):
    """When the jobs of a moment end under several policies."""

    at: Time
    policies: list[str]  # the one in force first
    jobs: list[PredictedJob]  # those that end first, at most 500
    total: int  # jobs in all
    average: dict[str, Finish | None]  # by policy, of the jobs that end under each of them
    averaged: int  # of how many that is
    unknown: int  # jobs of which nothing is known
    assumed_seconds: float | None  # what each of these was taken to need


class Study(TypedDict):
    """A comparison of policies or an experiment, with its report."""

    name: str
    kind: str  # comparison | what-if | experiment | report
    title: str
    about: str
    user: str  # "": it was put into the data folder
    yours: bool  # whether the caller may end or delete it
    state: Literal["running", "done", "failed", "cancelled"]
    problem: str
    created_at: Time
    ended_at: Time | None
    has_report: bool
    progress: StudyProgress | None  # while it runs
    summary: StudyTable | None  # what the report says in short
    prediction: Prediction | None  # of a comparison on the queue as it was


class StudyPage(TypedDict):
    studies: list[Study]


# --- users


class User(TypedDict):
    name: str
    role: Literal["admin", "user"]
    uid: int | None  # an account of the machine that jobs run as; None: a uid of the service's own
    gid: int | None
    root: bool  # whether plain processes run as root
    runs_as: str  # the account that jobs run as in the end, in words
    max_priority: int | None


class NewUser(User):
    notes: list[str]  # what an administrator should know


class UserPage(TypedDict):
    users: list[User]


class Token(TypedDict):
    id: int
    user: str
    label: str
    created_at: Time
    expires_at: Time | None  # a log-in to the page ends then, unless it is used before; None: never by itself


class TokenPage(TypedDict):
    tokens: list[Token]


class NewToken(TypedDict):
    id: int
    token: str  # shown this one time only
    user: str
    label: str


class Login(TypedDict):
    code: str  # shown this one time only
    user: str
    expires_at: Time


class Notice(TypedDict):
    """Something that a user was told, or will be."""

    id: str
    type: str  # job.succeeded | job.failed | job.cancelled | test
    text: str
    address: str
    created_at: Time
    state: Literal["waiting", "sent", "given up"]
    tries: int
    next_try_at: Time | None
    problem: str  # of the last try


class Notify(TypedDict):
    user: str
    addresses: list[str]  # told of the ends of all jobs of this user
    given: list[str]  # those that an administrator gave
    allowed: list[str]  # what any user may use
    mail: bool  # whether e-mails can be sent
    notices: list[Notice]  # the newest first


class Secret(TypedDict):
    secret: str


class Tested(TypedDict):
    addresses: int  # to which a test is on its way


class AuditEntry(TypedDict):
    """Who did what to whose things, and from where."""

    serial: int
    at: Time
    actor: str  # the caller's name then; "": no known one, "job 17.2": that attempt's own token
    actor_id: int | None  # the user's id: a name may be given to another user
    origin: str  # the address that the call came from; "(forwarded)": as a proxy, or the caller, says
    action: str  # such as job.cancel
    object: str  # such as job 17
    owner: str  # whose it is; "": no user's
    outcome: str  # done, or: refused: why
    data: dict[str, Any]


class AuditPage(TypedDict):
    entries: list[AuditEntry]  # the newest first
    next: int | None  # `before` of the next page; None: there are no more


# --- what workers are answered


class Accepted(TypedDict):
    accepted: int  # values that were new
    dropped: int  # values of metrics beyond those that are kept of a job


class GroupAnswer(TypedDict):
    """To a worker that asked to be let into its group. Without `group`: ask again, with the present members."""

    generation: int  # the newest that any worker has named
    group: str | None
    rank: int | None  # the worker's place in it
    size: int | None
    newest: int | None  # the place of the member that has come furthest
    differ: bool | None  # whether the others' states differ from that one's
    missing: list[int]  # members that do not wait yet
    over: bool  # the training has ended


class GroupWaiting(TypedDict):
    generation: int  # -1: none has asked yet
    waiting: list[int]


class GroupValues(TypedDict):
    values: dict[str, str]


class GroupTotal(TypedDict):
    value: int
