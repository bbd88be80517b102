"""A scheduler with a real store, a fake executor and a clock by hand: the test runs its cycles one by one."""

import math
from typing import Any

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.outcome import Outcome
from schedulearn.core.domain.states import JobState
from schedulearn.executors.common.paths import WorkerPaths
from schedulearn.service.common.config import DataFolder
from schedulearn.service.common.identity import Identities
from schedulearn.service.common.roles import SchedulerLease
from schedulearn.service.loop.launch import Launcher
from schedulearn.service.loop.scheduler import Scheduler
from schedulearn.service.progress.progress import ProgressWatcher
from schedulearn.store import Store
from support.builders import OK, node, spec
from support.clock import HandClock
from support.executor import FakeExecutor


class Bench:
    """One life of a scheduler after the other, on the same store. `live()` begins the next."""

    def __init__(
        self,
        store: Store,
        folder: DataFolder,
        clock: HandClock,
        *nodes: Node,
        look_every: float = math.inf,
        node_manager: Any = None,
    ) -> None:
        self.store, self.folder, self.clock = store, folder, clock
        self.look_every, self.node_manager = look_every, node_manager
        self.executor = FakeExecutor(*(nodes or (node("a", cpus=2),)))
        # The default has share loops, threads that nobody here would end.
        if store.setting("policy") is None:
            store.set_setting("policy", {"preset": "fifo", "stages": {}, "params": {}})
        self.live()

    def live(self) -> None:
        """As after a crash: all that is left is the store (and the executor's workers)."""
        self.lease = SchedulerLease(self.store, self.clock, self.folder.root)
        self.lease.take(shared_database=False)
        self.progress = ProgressWatcher(self.store, self.worker_folder, self.clock)
        launcher = Launcher(self.store, self.folder, Identities())
        self.scheduler = Scheduler(
            self.store,
            self.executor,
            self.clock,
            self.lease,
            launcher,
            self.progress,
            self.node_manager,
            look_every=self.look_every,
        )
        self.executor.sink = self.scheduler.post
        self.executor.take_calls()
        self.scheduler.recover()

    def worker_folder(self, worker: Any) -> Any:
        return WorkerPaths.of(self.folder.root, worker).folder

    def cycle(self, seconds: float = 0.0) -> list[tuple[object, ...]]:
        """One cycle, later by so much; what the executor was told in it."""
        self.clock.pass_time(seconds)
        self.scheduler.cycle()
        return self.executor.take_calls()

    def submit(self, **more: Any) -> JobId:
        return self.store.add_job(spec(**more), "ann", self.clock.now(), "submitted by ann")

    def ask(self, kind: str, job: JobId | None = None, **data: Any) -> None:
        self.store.add_request(kind, job, data, "ann", self.clock.now())

    def running(self, **more: Any) -> JobId:
        """A job that runs."""
        job = self.submit(**more)
        self.cycle()
        self.executor.started(f"{job}.1.0", self.clock.now())
        self.cycle()
        assert self.state(job) == "running"
        return job

    def exited(self, worker: str, outcome: Outcome = OK) -> None:
        self.executor.exited(worker, self.clock.now(), outcome)

    def job(self, job: JobId) -> Job:
        row = self.store.job(job)
        assert row, f"there is no job {job}"
        return row.job

    def state(self, job: JobId) -> JobState:
        return self.job(job).state

    def story(self, job: JobId | None = None) -> list[str]:
        return [stored.event.kind for stored in self.store.events_after(0, job)]
