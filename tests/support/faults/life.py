"""One life of the service, put together as `service/runtime.py` does it, without threads, sockets and processes."""

from collections.abc import Callable
from functools import partial
from typing import Any

from schedulearn.core.control.explain import Explanation
from schedulearn.core.domain.events import Event
from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.executors.common.paths import WorkerPaths
from schedulearn.service.common.auth import Caller
from schedulearn.service.common.clock import keep, resumed
from schedulearn.service.common.config import DataFolder
from schedulearn.service.common.identity import Identities
from schedulearn.service.common.roles import SchedulerLease
from schedulearn.service.gateway.gateway import Gateway
from schedulearn.service.loop.launch import Launcher
from schedulearn.service.loop.scheduler import Scheduler
from schedulearn.service.progress import progress
from schedulearn.service.share.loops import ShareThread
from schedulearn.service.upkeep.lineage import settle
from support.faults.effects import Effects, opened
from support.faults.world import LOST_AFTER, FaultyExecutor, Machines

ANN = Caller("ann", "admin", id=1)


class Life:
    """Opened from what is in the folder; `drop` forgets all that was in memory."""

    def __init__(self, folder: DataFolder, world: Machines, effects: Effects, wake: Callable[[], None]) -> None:
        self._wake, self._world, self._over = wake, world, False
        self.clock = resumed(folder.clock)
        self.store = opened(folder, effects)
        try:
            self._put_together(folder, world, effects)
        except BaseException:
            self.store.close()
            raise

    def _put_together(self, folder: DataFolder, world: Machines, effects: Effects) -> None:
        store, clock = self.store, self.clock
        settle(store, folder, shared=False, accept=False)
        keep(clock, folder.clock)
        lease = SchedulerLease(store, clock, folder.root, partial(keep, clock, folder.clock))
        lease.take(shared_database=False)
        self.progress = progress.ProgressWatcher(store, lambda worker: _folder_of(folder, worker), clock)
        self.executor = FaultyExecutor(world, self._post, clock, effects)
        launcher = Launcher(store, folder, Identities())
        self.scheduler = Scheduler(store, self.executor, clock, lease, launcher, self.progress, lost_after=LOST_AFTER)
        self.gateway = Gateway(
            store,
            folder.root,
            self._wake,
            _explain_nothing,
            scheduler_seen=clock.now,
            waiting=lambda _: [],
            clock=clock.now,
        )
        self._read_output()

    def _read_output(self) -> None:
        """As the watcher's thread does."""
        if not self._over:
            self._world.later(progress._EVERY, self._read_output)
            self.progress.look()

    def _post(self, event: Event) -> None:
        self.scheduler.post(event)
        self._wake()

    def drop(self) -> None:
        self._over = True
        self.executor.close()
        self.scheduler.close()
        self.store.close()


class VirtualLoop:
    """The share loop of a machine without its thread: it looks when the world's time has come."""

    def __init__(self, world: Machines, machine: Any, clock: Any) -> None:
        self.machine, self._world, self._clock = machine, world, clock
        self._closed, self._turn = False, 0

    def wake(self) -> None:
        self._again(0.0)

    def close(self) -> None:
        self._closed = True

    def wait(self) -> None:
        pass

    def _again(self, seconds: float) -> None:
        self._turn += 1
        self._world.later(seconds, partial(self._look, self._turn))

    def _look(self, turn: int) -> None:
        if not self._closed and turn == self._turn:
            self._again(ShareThread._look(self))  # type: ignore[arg-type]


def _folder_of(folder: DataFolder, worker: WorkerId) -> Any:
    return WorkerPaths.of(folder.root, worker).folder


def _explain_nothing(job: JobId) -> Explanation:
    raise NotImplementedError(f"nobody asks about job {job}")
