"""The job's states and the table of transitions. The diagram in the docs is made from this table."""

from enum import StrEnum

from schedulearn.core.domain.errors import IllegalTransition


class JobState(StrEnum):
    QUEUED = "queued"  # waits for its turn: not started yet, or suspended
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"  # held by its user: with its leases, or back from the queue
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def in_words(self) -> str:
        """`is running`, `has succeeded`: how a job in this state goes on in a sentence."""
        return f"{_VERBS.get(self, 'is')} {self}"


_VERBS = {JobState.SUCCEEDED: "has", JobState.FAILED: "has", JobState.CANCELLED: "was"}
FINISHED = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
WITH_WORKERS = frozenset({JobState.STARTING, JobState.RUNNING, JobState.PAUSED})  # that may become more, or fewer


class Trigger(StrEnum):
    """What moves a job from one state to another."""

    START = "start"  # it was given leases
    STARTED = "started"  # all its workers run
    PAUSE = "pause"
    SUSPEND = "suspend"  # others have their turn; the attempt stays, and goes on later
    RESUME = "resume"  # a paused or suspended attempt goes on
    RELEASE = "release"  # a job held back in the queue goes back into it
    STOP = "stop"  # its workers are told to end
    REQUEUE = "requeue"  # the attempt is over, the job is not
    SUCCEED = "succeed"
    FAIL = "fail"
    CANCEL = "cancel"


_S, _T = JobState, Trigger
TRANSITIONS: dict[tuple[JobState, Trigger], JobState] = {
    (_S.QUEUED, _T.START): _S.STARTING,
    (_S.QUEUED, _T.PAUSE): _S.PAUSED,
    (_S.QUEUED, _T.RESUME): _S.RUNNING,
    (_S.QUEUED, _T.STOP): _S.STOPPING,
    (_S.QUEUED, _T.REQUEUE): _S.QUEUED,
    (_S.QUEUED, _T.SUCCEED): _S.SUCCEEDED,
    (_S.QUEUED, _T.FAIL): _S.FAILED,
    (_S.QUEUED, _T.CANCEL): _S.CANCELLED,
    (_S.STARTING, _T.STARTED): _S.RUNNING,
    (_S.STARTING, _T.SUSPEND): _S.QUEUED,
    (_S.STARTING, _T.STOP): _S.STOPPING,
    (_S.STARTING, _T.REQUEUE): _S.QUEUED,
    (_S.STARTING, _T.SUCCEED): _S.SUCCEEDED,
    (_S.STARTING, _T.FAIL): _S.FAILED,
    (_S.RUNNING, _T.PAUSE): _S.PAUSED,
    (_S.RUNNING, _T.SUSPEND): _S.QUEUED,
    (_S.RUNNING, _T.STOP): _S.STOPPING,
    (_S.RUNNING, _T.REQUEUE): _S.QUEUED,
    (_S.RUNNING, _T.SUCCEED): _S.SUCCEEDED,
    (_S.RUNNING, _T.FAIL): _S.FAILED,
    (_S.PAUSED, _T.RESUME): _S.RUNNING,
    (_S.PAUSED, _T.RELEASE): _S.QUEUED,
    (_S.PAUSED, _T.STOP): _S.STOPPING,
    (_S.PAUSED, _T.REQUEUE): _S.QUEUED,
    (_S.PAUSED, _T.SUCCEED): _S.SUCCEEDED,
    (_S.PAUSED, _T.FAIL): _S.FAILED,
    (_S.PAUSED, _T.CANCEL): _S.CANCELLED,
    (_S.STOPPING, _T.REQUEUE): _S.QUEUED,
    (_S.STOPPING, _T.SUCCEED): _S.SUCCEEDED,
    (_S.STOPPING, _T.FAIL): _S.FAILED,
    (_S.STOPPING, _T.CANCEL): _S.CANCELLED,
}


def next_state(state: JobState, trigger: Trigger) -> JobState:
    try:
        return TRANSITIONS[state, trigger]
    except KeyError:
        raise IllegalTransition(f"a {state} job cannot {trigger}") from None


class StopReason(StrEnum):
    """Why the workers of an attempt are told to end. It decides what becomes of the job."""

    CANCEL = "cancel"  # its user wants it gone: cancelled
    TIME_LIMIT = "time_limit"  # failed
    DISK = "disk"  # it filled the disk: failed
    FAILURE = "failure"  # one worker failed, so the others stop: failed or queued again
    PREEMPT = "preempt"  # others go first: queued again
    RESIZE = "resize"  # queued again, with another number of workers
    MIGRATE = "migrate"  # queued again, somewhere else
    NODE_LOST = "node_lost"  # queued again
    TARGET = "target"  # its target is reached: succeeded


PASSING = frozenset({StopReason.PREEMPT, StopReason.RESIZE, StopReason.MIGRATE, StopReason.NODE_LOST})  # it comes back
