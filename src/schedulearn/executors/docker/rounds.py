"""A thread that looks after an engine: kills what was given its time, notices what streams missed, removes orphans."""

import logging
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.ids import WorkerId
from schedulearn.executors.common.base import Unreachable
from schedulearn.executors.common.endings import read_end
from schedulearn.executors.common.folders import is_stale
from schedulearn.executors.common.paths import WorkerPaths
from schedulearn.executors.docker.containers import Containers, State
from schedulearn.executors.docker.names import LOOK, SETUP, worker_of
from schedulearn.executors.docker.starting import Site

log = logging.getLogger(__name__)


class Grace:
    """How long workers that were told to end may still take. Thread-safe; times are on the monotonic clock."""

    def __init__(self) -> None:
        self._until: dict[WorkerId, float] = {}
        self._lock = threading.Lock()

    def give(self, worker: WorkerId, seconds: float) -> bool:
        """A second word may shorten the time, never lengthen it. Returns whether this is the first."""
        until = time.monotonic() + max(0.0, seconds)
        with self._lock:
            before = self._until.get(worker)
            self._until[worker] = until if before is None else min(until, before)
            return before is None

    def over(self) -> list[WorkerId]:
        """Whose time is over; they are forgotten here."""
        now = time.monotonic()
        with self._lock:
            over = [worker for worker, until in self._until.items() if until <= now]
            for worker in over:
                del self._until[worker]
        return over

    def next(self) -> float | None:
        """When the next one's is."""
        with self._lock:
            return min(self._until.values(), default=None)

    def forget(self, worker: WorkerId) -> None:
        with self._lock:
            self._until.pop(worker, None)


class Workers(Protocol):
    """What a round needs of the executor."""

    def is_orphan(self, worker: WorkerId) -> bool: ...

    def look_again(self, worker: WorkerId | None = None) -> None: ...

    def kill(self, worker: WorkerId) -> None: ...

    def save(self, worker: WorkerId) -> None: ...


class Rounds:
    """Only containers with this service's own label are looked at."""

    TIMEOUT = 5.0  # seconds in which the engine must answer
    EVERY = 5.0  # seconds

    def __init__(self, containers: Containers, site: Site, workers: Workers, grace: Grace) -> None:
        self._containers, self._site, self._workers, self._grace = containers, site, workers, grace
        self._first = True  # no round was completed in this life
        self._silent = False
        self._closed = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="docker-rounds", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """A worker was given a new time."""
        self._wake.set()

    def close(self) -> None:
        self._closed = True
        self._wake.set()

    def _run(self) -> None:
        look_at = 0.0
        while not self._closed:
            for worker in self._grace.over():
                self._workers.kill(worker)
            if time.monotonic() >= look_at:
                self._look()
                look_at = time.monotonic() + self.EVERY
            due = self._grace.next()
            until = look_at if due is None else min(look_at, due)
            self._wake.wait(max(0.0, until - time.monotonic()))
            self._wake.clear()
        self._containers.calls.close()

    def _look(self) -> None:
        try:
            found = self._containers.ours()
            self._tidy(found)
            self._site.networks.tidy(found, self._containers.calls)
            self._first = False
        except Unreachable:
            if not self._silent:
                self._workers.look_again()  # what streams there are lead nowhere
            self._silent = True
        except Exception:
            log.warning("a round failed; the next one tries again", exc_info=True)
        else:
            self._silent = False

    def _tidy(self, found: Iterable[State]) -> None:
        for state in found:
            worker = worker_of(state.labels)
            if self._closed:
                return
            if worker is None:
                self._tidy_helper(state)
            elif why := self._superfluous(worker):
                self._remove(state, f"of worker {worker}", why)
            elif state.alive:
                self._workers.save(worker)
            else:
                self._workers.look_again(worker)

    def _tidy_helper(self, state: State) -> None:
        """What an earlier life left; this one removes its own."""
        key, who = state.labels.get(SETUP), state.labels.get(LOOK)
        if key and self._first and not self._site.layers.being_made(key):
            self._remove(state, "of a setup", "it is not needed any more")
        if who and self._first and not self._site.host_paths.in_use(who):
            self._remove(state, "that shows paths", "it is not needed any more")

    def _remove(self, state: State, what: str, why: str) -> None:
        log.info("the container %s is removed: %s", what, why)
        with suppress(ExecutorError):
            self._containers.remove(state.id)

    def _superfluous(self, worker: WorkerId) -> str:
        """Why this container is not needed any more; "" if it is."""
        paths = WorkerPaths.of(self._site.root, worker)
        if is_stale(worker, paths.job):
            return "a newer attempt has begun"
        if read_end(paths):
            return "its end is written down"
        if not paths.folder.exists():
            return "its job is forgotten"
        return "the service does not ask for it" if self._workers.is_orphan(worker) else ""
