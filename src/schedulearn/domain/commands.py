"""What the control loop wants done. Each is idempotent: after a crash it is simply given again."""

from dataclasses import dataclass

from schedulearn.domain.ids import AttemptId, JobId, NodeName, WorkerId


@dataclass(frozen=True, slots=True)
class StartAttempt:
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
class ForgetJob:
    """Remove everything that is kept of it."""

    job: JobId


Command = StartAttempt | StopWorker | PauseWorker | ResumeWorker | ForgetJob
