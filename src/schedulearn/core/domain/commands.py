"""What the control loop wants done. Each is idempotent: after a crash it is simply given again."""

from dataclasses import dataclass

from schedulearn.core.domain.group import Group
from schedulearn.core.domain.ids import AttemptId, JobId, NodeName, WorkerId
from schedulearn.core.domain.usage import Limits


@dataclass(frozen=True, slots=True)
class StartAttempt:
    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class StartWorkers:
    """These join an attempt that runs."""

    attempt: AttemptId
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Regroup:
    """Tell a worker who belongs to the group from now on; if it is not among them, it has to leave."""

    worker: WorkerId
    node: NodeName
    group: Group


@dataclass(frozen=True, slots=True)
class StopAttempt:
    """Stop all its workers that run."""

    attempt: AttemptId
    grace: float  # seconds, as below


@dataclass(frozen=True, slots=True)
class PauseAttempt:
    """Pause all its workers, but for those who leave: they could not if they stood still."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class ResumeAttempt:
    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class StopWorker:
    worker: WorkerId
    node: NodeName
    grace: float  # seconds between SIGTERM and SIGKILL; 0: at once


@dataclass(frozen=True, slots=True)
class PauseWorker:
    worker: WorkerId
    node: NodeName


@dataclass(frozen=True, slots=True)
class ResumeWorker:
    worker: WorkerId
    node: NodeName


@dataclass(frozen=True, slots=True)
class SetLimits:
    """Change what a running worker may use."""

    worker: WorkerId
    node: NodeName
    limits: Limits


@dataclass(frozen=True, slots=True)
class ForgetJob:
    """Remove everything that is kept of it."""

    job: JobId


@dataclass(frozen=True, slots=True)
class AddNode:
    """Workers may be started there from now on."""

    node: NodeName


@dataclass(frozen=True, slots=True)
class ForgetNode:
    """Nothing runs there any more, and nothing will."""

    node: NodeName


Command = (
    StartAttempt
    | StartWorkers
    | Regroup
    | StopAttempt
    | PauseAttempt
    | ResumeAttempt
    | StopWorker
    | PauseWorker
    | ResumeWorker
    | SetLimits
    | ForgetJob
    | AddNode
    | ForgetNode
)
