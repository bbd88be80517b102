"""A scheduler over a real store with an executor that only listens: the benchmark says what happens to workers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from bench.service import folder
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.group import Group
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.job import HistoryEvent, Job
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.spec import JobSpec, WorkerResources
from schedulearn.core.domain.states import JobState
from schedulearn.core.domain.usage import Limits, Usage
from schedulearn.service.common.clock import SteadyClock
from schedulearn.service.common.config import DataFolder
from schedulearn.service.common.identity import Identities
from schedulearn.service.common.roles import SchedulerLease
from schedulearn.service.loop.launch import Launcher
from schedulearn.service.loop.scheduler import Scheduler
from schedulearn.service.progress.progress import ProgressWatcher
from schedulearn.store import Cycle, Store, open_store

CORES = 8
_SHAPES = 10  # jobs ask for this many different amounts
USER = "bench"
MakeSpec = Callable[[int], JobSpec]


class ListeningExecutor:
    """One node; remembers what was started."""

    def __init__(self) -> None:
        self.started: list[WorkerId] = []

    def nodes(self) -> list[Node]:
        return [Node(NodeName("local"), capacity=Resources(cpus=CORES, memory=64e9))]

    def start(self, launch: Launch) -> None:
        self.started.append(launch.worker)

    def adopt(self, worker: WorkerId, node: NodeName) -> None: ...

    def stop(self, worker: WorkerId, node: NodeName, grace: float) -> None: ...

    def pause(self, worker: WorkerId, node: NodeName) -> None: ...

    def resume(self, worker: WorkerId, node: NodeName) -> None: ...

    def regroup(self, worker: WorkerId, node: NodeName, group: Group) -> None: ...

    def set_limits(self, worker: WorkerId, node: NodeName, limits: Limits, *, automatic: bool = False) -> None: ...

    def usage(self, worker: WorkerId, node: NodeName) -> Usage | None: ...

    def forget(self, job: JobId) -> None: ...

    def has_checkpoint(self, job: JobId) -> bool:  # noqa: ARG002
        return False

    def close(self) -> None: ...


class World:
    def __init__(self, store: Store, data: DataFolder, queued: int, make: MakeSpec) -> None:
        self._make = make
        self.store, self.clock, self.executor = store, SteadyClock(), ListeningExecutor()
        lease = SchedulerLease(store, self.clock, data.root)
        lease.take(shared_database=False)
        progress = ProgressWatcher(store, lambda worker: data.jobs / str(worker), self.clock)
        self.scheduler = Scheduler(
            store, self.executor, self.clock, lease, Launcher(store, data, Identities()), progress
        )
        fill(store, lease.fence, queued, self.clock.now(), make)
        self.scheduler.recover()
        self.scheduler.cycle()  # sees the node, starts the first jobs

    def submit(self, number: int = 0) -> JobId:
        return self.store.add_job(self._make(number), USER, self.clock.now(), "submitted")

    def one_ends(self) -> None:
        """The worker that has run longest ends well; another job has come, so that the queue stays as long as it is."""
        worker = self.executor.started.pop(0)
        now = self.clock.now()
        self.submit()
        self.scheduler.post(ev.WorkerStarted(now, worker))
        self.scheduler.cycle()
        self.scheduler.post(ev.WorkerExited(now, worker, Outcome(Ending.EXITED, exit_code=0)))


def spec(number: int) -> JobSpec:
    cores = 0.5 + number % _SHAPES / _SHAPES
    return JobSpec(
        "train", "true", env={"SEED": str(number)}, resources=WorkerResources(cpus_min=cores, cpus_max=cores)
    )


def fill(store: Store, fence: int, queued: int, now: float, make: MakeSpec = spec) -> None:
    """As many jobs as are asked for, written at once, and a few finished ones to learn durations from."""
    waiting = [_job(n, now, make) for n in range(1, queued + 1)]
    done = [_finished(_job(queued + n, now, make)) for n in range(1, 21)]
    said = [HistoryEvent(now, "submitted", "submitted", job.id, state=job.state) for job in waiting]
    store.save_cycle(Cycle(fence, jobs=[*waiting, *done], events=said))


def _job(number: int, now: float, make: MakeSpec) -> Job:
    return Job(JobId(number), make(number), USER, submitted_at=now, queued_at=now)


def _finished(job: Job) -> Job:
    job.state, job.finished_at, job.ran = JobState.SUCCEEDED, job.submitted_at, job.ran._replace(value=60.0 + job.id)
    return job


class Statements:
    """Counts the SQL statements of a store, BEGIN and COMMIT included where the driver is told them."""

    def __init__(self, store: Store) -> None:
        self.count = 0
        sa.event.listen(store._db.engine, "before_cursor_execute", self._seen)

    def _seen(self, *_: object) -> None:
        self.count += 1


@contextmanager
def world(queued: int, make: MakeSpec = spec) -> Iterator[World]:
    """`make` says what the job of each number asks for."""
    with folder() as root, open_store(root / "schedulearn.db") as store:
        yield World(store, DataFolder(Path(root)), queued, make)
