"""Checkpoints fetched while their containers run, so that a server that is lost takes little progress with it."""

import logging
import threading
import time
from dataclasses import dataclass, field

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.ids import WorkerId
from schedulearn.core.domain.ports import Clock
from schedulearn.executors.common.folders import note_fetched
from schedulearn.executors.common.paths import WorkerPaths
from schedulearn.executors.docker.bringing import Bringer, Brought, Moving
from schedulearn.executors.docker.containers import Containers

log = logging.getLogger(__name__)
EVERY = 10.0  # seconds, at the least
SHARE = 0.05  # of the time is spent with fetching, at the most
TRIES = 3  # in a row, where files change while they are read


@dataclass(slots=True)
class _Watched:
    due: float = field(default_factory=lambda: time.monotonic() + EVERY)
    brought: Brought = field(default_factory=Brought)
    busy: threading.Lock = field(default_factory=threading.Lock)
    over: bool = False


class LiveCheckpoints:
    """Only whole files, and only what has changed."""

    def __init__(self, containers: Containers, clock: Clock) -> None:
        self._bringer, self._clock = Bringer(containers), clock
        self._watched: dict[WorkerId, _Watched] = {}
        self._lock = threading.Lock()

    def due(self, worker: WorkerId) -> bool:
        with self._lock:
            return self._watched.setdefault(worker, _Watched()).due <= time.monotonic()

    def fetch(self, worker: WorkerId, paths: WorkerPaths) -> None:
        watched = self._watched.get(worker)
        if watched is None:
            return
        with watched.busy:
            if not watched.over and watched.due <= time.monotonic():
                began = time.monotonic()
                try:
                    self._fetch(worker, paths, watched)
                except (OSError, ExecutorError) as error:
                    log.info("the checkpoint of worker %s is not fetched now: %s", worker, error)
                took = time.monotonic() - began
                watched.due = time.monotonic() + max(EVERY, took / SHARE)

    def finish(self, worker: WorkerId) -> None:
        """From now on only the end of the worker fetches anything. Waits for a fetch that is under way."""
        with self._lock:
            watched = self._watched.setdefault(worker, _Watched())
        with watched.busy:
            watched.over = True

    def forget(self, worker: WorkerId) -> None:
        with self._lock:
            self._watched.pop(worker, None)

    def _fetch(self, worker: WorkerId, paths: WorkerPaths, watched: _Watched) -> None:
        for _ in range(TRIES):
            try:
                if self._bringer.bring(worker, paths, watched.brought):
                    note_fetched(paths.job, self._clock.now())
                return
            except Moving as why:
                log.debug("the checkpoint of worker %s is looked at again: %s", worker, why)
