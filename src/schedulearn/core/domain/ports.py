"""The small protocols between the core and what acts. Each has one contract test over all implementations."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from schedulearn.core.domain.events import Event
from schedulearn.core.domain.group import Group
from schedulearn.core.domain.ids import DeviceId, JobId, NodeName, WorkerId
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.spec import JobSpec
from schedulearn.core.domain.usage import Limits, Usage

HERE = "127.0.0.1"  # as the workers on one node see their machine


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch, UTC."""


@dataclass(frozen=True, slots=True)
class Launch:
    """All that an executor needs to start one worker."""

    worker: WorkerId
    node: NodeName
    spec: JobSpec
    devices: tuple[DeviceId, ...] = ()
    cpu_limit: float | None = None  # cores; None: no limit
    world_size: int = 1
    group: Group | None = None  # as it is when the worker starts; None: so many workers from the first to the last
    local_rank: int = 0
    master_addr: str = HERE  # of its first worker
    master_port: int = 0
    together: bool = True  # whether all workers of the attempt are on one node
    elsewhere: bool = False  # whether others may join them on another one
    snapshot: Path | None = None  # the archive to unpack into a run folder that is still empty
    url: str = ""  # where the API answers
    token: str = ""  # this attempt's own
    uid: int | None = None  # run as; None: as the service itself, which containers never do
    gid: int | None = None
    env: dict[str, str] = field(default_factory=dict)  # beyond the spec's


EventSink = Callable[[Event], None]  # thread-safe; called from the executor's own threads


class Executor(Protocol):
    """Runs workers on nodes. No call blocks for long; what comes of it arrives as events.

    Every call is idempotent. `start` of a worker that was started before, even by an earlier life of the
    service, starts nothing a second time; it only watches the worker and reports its events (again).
    """

    def nodes(self) -> list[Node]:
        """The nodes it runs workers on, with what they have now."""

    def start(self, launch: Launch) -> None:
        """Start the worker; WorkerStarted, later WorkerExited follow (NOT_STARTED if it cannot be)."""

    def adopt(self, worker: WorkerId, node: NodeName) -> None:
        """Watch a worker that an earlier life of the service started; its events follow, even if it has long ended."""

    def stop(self, worker: WorkerId, node: NodeName, grace: float) -> None:
        """Ask it to end (SIGTERM), after `grace` seconds kill its whole tree; WorkerExited follows."""

    def pause(self, worker: WorkerId, node: NodeName) -> None:
        """Suspend the whole tree; WorkerPaused follows once all of it stands still (each time it is asked)."""

    def resume(self, worker: WorkerId, node: NodeName) -> None:
        """The inverse of `pause`."""

    def regroup(self, worker: WorkerId, node: NodeName, group: Group) -> None:
        """Tell it who belongs to the group from now on. Nothing happens if it knows of a newer one, or is not there."""

    def set_batch(self, worker: WorkerId, node: NodeName, batch: int) -> None:
        """Tell it with which batch size all workers together are to train from their next step on."""

    def set_limits(self, worker: WorkerId, node: NodeName, limits: Limits, *, automatic: bool = False) -> None:
        """Change what a running worker may use, all of it or nothing; LimitsSet follows if anything had to change.

        `automatic`: a share loop wants it, no person does; LimitsSet says so, too.
        """

    def usage(self, worker: WorkerId, node: NodeName) -> Usage | None:
        """What it has used so far, and its limits. Never waits; None: it does not run, or nothing is known yet."""

    def has_checkpoint(self, job: JobId) -> bool:
        """Whether the job has left anything in its checkpoint folder."""

    def forget(self, job: JobId) -> None:
        """Remove all that is kept of a job that no longer runs."""

    def close(self) -> None:
        """Stop watching. The workers go on."""
