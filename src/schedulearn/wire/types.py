"""What the service answers, as types. All are plain dictionaries: what came is what you see.

Times are ISO 8601 texts in UTC; durations are seconds, sizes bytes.
"""

from typing import Any, Literal, TypedDict

JobState = Literal["queued", "starting", "running", "paused", "stopping", "succeeded", "failed", "cancelled"]
FINISHED: frozenset[str] = frozenset({"succeeded", "failed", "cancelled"})


class Health(TypedDict):
    status: str
    version: str
    roles: list[str]
    scheduler: Literal["running", "absent"]
    database: Literal["ok", "not answering"]
    database_lost_since: str | None
    time: str


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
    value: float | None  # None: it was not a number
    spark: list[float | None]  # the curve in a few values
    updated_at: str
    eta_seconds: float | None


class Weight(TypedDict):
    expected: float
    low: float
    high: float
    unit: str  # GPU-seconds | core-seconds
    source: str  # where the estimate comes from


class SpeedUp(TypedDict):
    workers: int
    value: float  # so many times as fast as with one worker
    measured: bool  # False: of earlier jobs of its name


class Job(TypedDict):
    id: int
    name: str
    user: str
    yours: bool  # whether the caller may change it
    state: JobState
    reason: str
    priority: int
    deadline: str | None
    time_limit: float | None
    cpus_limit: float | None  # cores for each worker, if that was changed after the submission
    reached_at: str | None  # when its target was reached
    attempt: int  # 0: never started
    workers: int
    placement: list[Placement]
    submitted_at: str
    queued_at: str
    started_at: str | None
    finished_at: str | None
    run_seconds: float
    wait_seconds: float
    restarts: int
    preemptions: int
    migrations: int
    migration_seconds: float
    moving_to: list[str]  # nodes, while a migration is under way
    resizes: int
    exit: Exit | None
    progress: Progress | None
    weight: Weight | None  # None in lists
    hint: str | None  # None in lists
    speedup: SpeedUp | None  # None in lists
    checkpoint_at: str | None  # when one of its container was last brought to the service; None in lists
    spec: dict[str, Any]


class JobPage(TypedDict):
    jobs: list[Job]
    total: int  # of all that match, not only of this page


class Checked(TypedDict):
    """The answer to a submission that was only tried."""

    valid: bool
    spec: dict[str, Any]


class Series(TypedDict):
    name: str
    count: int
    last: float | None
    min: float | None
    max: float | None
    points: list[tuple[int, float | None, str]]  # step, value, time


class Look(TypedDict):
    """One look at a worker. Counters are since its start; None: its machine cannot tell."""

    at: str
    cpus: float | None  # cores in use since the look before
    cpu_seconds: float
    memory: int | None
    read_bytes: int | None
    written_bytes: int | None
    received_bytes: int | None
    sent_bytes: int | None
    energy: float | None  # joules
    cpus_limit: float | None
    weight: int | None
    memory_limit: int | None


class WorkerUsage(TypedDict):
    worker: str
    memory_peak: int | None
    latest: Look
    points: list[Look]


class Event(TypedDict):
    serial: int
    at: str
    kind: str
    cause: str
    job: int | None
    attempt: int | None
    node: str | None
    state: str | None
    data: dict[str, Any]


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
    stage: str | None


class PossibleMove(TypedDict):
    node: str
    problem: str | None  # why it cannot go there now; None: it can


class AttemptWorker(TypedDict):
    worker: str
    node: str
    devices: list[str]
    started_at: str | None
    ended_at: str | None
    left_at: str | None  # when it was told to leave, or was lost, while the others went on
    exit: Exit | None


class Attempt(TypedDict):
    attempt: str  # "17.2"
    created_at: str
    ended_at: str | None
    stop: str | None
    generation: int  # how often its workers have changed while it ran
    workers: list[AttemptWorker]


class Device(TypedDict):
    id: str
    kind: str
    model: str
    memory: int
    outside_use: str  # "": nobody outside uses it
    job: int | None


class Sharing(TypedDict):
    stage: str
    limits: dict[str, float]  # cores by job
    problem: str  # why nobody is limited although the policy has another stage


class Node(TypedDict):
    name: str
    executor: str  # process | docker
    state: str  # up | draining | lost | removing
    problem: str  # why it does not answer
    lost_at: str | None
    address: str  # of its engine
    version: str
    default_image: str
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


class Holder(TypedDict):
    """What a worker holds, and how much of it it uses; None where that is not known."""

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
    at: str
    scheduler: Literal["running", "absent"]
    policy: PolicyInForce
    counts: dict[str, int]  # of jobs, by state; exact, however long the lists
    last_event: int
    nodes: list[Node]
    holders: list[Holder]
    running: list[Job]  # starting, paused and stopping ones too
    waiting: list[Waiting]  # the head of the queue first
    finished: list[Job]  # the newest first


class Span(TypedDict):
    """The time of one worker on its node."""

    worker: str  # "17.2.0"
    job: int
    name: str
    user: str
    node: str
    devices: list[str]
    started_at: str
    ended_at: str | None  # None: it runs still
    stop: str | None  # why its attempt was told to stop
    exit: Exit | None


class Timeline(TypedDict):
    at: str
    since: str
    until: str
    first_at: str | None  # when the first job that is kept was submitted
    spans: list[Span]  # the newest first
    total: int  # of all that match


class Policy(TypedDict):
    preset: str
    stages: dict[str, str]
    params: dict[str, Any]
    available: dict[str, Any]
    fault: dict[str, Any] | None
    sharing_problems: dict[str, str]  # by node: why it is shared fairly although the policy says otherwise


class StudyProgress(TypedDict):
    policy: str
    done: int  # jobs, of all policies together
    total: int  # 0 while the workload is being read


class StudyTable(TypedDict):
    columns: list[str]
    rows: list[list[str]]
    best: list[list[bool]]


class Study(TypedDict):
    """A comparison of policies or an experiment, with its report."""

    name: str
    kind: str
    title: str
    about: str
    user: str  # "": it was put into the data folder
    yours: bool  # whether the caller may end or delete it
    state: Literal["running", "done", "failed", "cancelled"]
    problem: str
    created_at: str
    ended_at: str | None
    has_report: bool
    progress: StudyProgress | None  # while it runs
    summary: StudyTable | None


class User(TypedDict):
    name: str
    role: Literal["admin", "user"]
    uid: int | None  # an account of the machine that jobs run as; None: a uid of the service's own
    gid: int | None
    root: bool  # whether plain processes run as root
    runs_as: str  # whom jobs run as in the end, in words
    max_priority: int | None


class NewUser(User):
    notes: list[str]  # what an administrator should know


class Token(TypedDict):
    id: int
    user: str
    label: str
    created_at: str
    expires_at: str | None  # a log-in to the page ends then, unless it is used before; None: never by itself


class NewToken(TypedDict):
    id: int
    token: str  # shown this one time only
    user: str
    label: str


class Login(TypedDict):
    code: str  # shown this one time only
    user: str
    expires_at: str


class Notice(TypedDict):
    id: str
    type: str  # job.succeeded, job.failed, job.cancelled, test
    text: str
    address: str
    created_at: str
    state: Literal["waiting", "sent", "given up"]
    tries: int
    next_try_at: str | None
    problem: str  # of the last try


class Notify(TypedDict):
    user: str
    addresses: list[str]
    given: list[str]  # by an administrator
    allowed: list[str]  # what anybody may use
    mail: bool
    notices: list[Notice]  # the newest first


class AuditEntry(TypedDict):
    """Who did what to whose things, and from where."""

    serial: int
    at: str
    actor: str  # the name then; "": nobody who is known
    actor_id: int | None
    origin: str
    action: str  # such as job.cancel
    object: str  # such as job 17
    owner: str  # whose it is
    outcome: str  # done, or: refused: why
    data: dict[str, Any]


class AuditPage(TypedDict):
    entries: list[AuditEntry]  # the newest first
    next: int | None
