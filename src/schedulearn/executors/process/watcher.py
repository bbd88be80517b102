"""Notices the end of processes that need not be our children."""

import os
import selectors
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from os import pidfd_open

from schedulearn.core.domain.ids import WorkerId
from schedulearn.executors.kernel.procfs import start_time


@dataclass(frozen=True, slots=True)
class Watched:
    """One shim; `alive` is asked now and then where the kernel has no better way."""

    worker: WorkerId
    pid: int
    start_time: int
    alive: Callable[[], bool]


class Watcher:
    """One thread that sleeps until a pidfd says that its process ended. Calls `on_end` once for each."""

    def __init__(self, on_end: Callable[[WorkerId], None], interval: float = 0.5) -> None:
        self._on_end, self._interval = on_end, interval
        self._selector = selectors.DefaultSelector()
        self._polled: list[Watched] = []
        self._incoming: list[Watched] = []
        self._lock = threading.Lock()
        self._closed = False
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="process-watcher", daemon=True)
        self._thread.start()

    def add(self, watched: Watched) -> None:
        with self._lock:
            if not self._closed:
                self._incoming.append(watched)
                self._wake()

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._wake()
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            os.close(key.fd)
        self._selector.close()
        os.close(self._wake_write)

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # full: it wakes anyway
            os.write(self._wake_write, b"w")

    def _run(self) -> None:
        while not self._closed:
            timeout = self._interval if self._polled else None
            for key, _ in self._selector.select(timeout):
                if key.fd == self._wake_read:
                    self._take_incoming()
                else:
                    self._selector.unregister(key.fd)
                    os.close(key.fd)
                    self._ended(key.data)
            self._poll()

    def _take_incoming(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
        with self._lock:
            fresh, self._incoming = self._incoming, []
        for watched in fresh:
            self._begin(watched)

    def _begin(self, watched: Watched) -> None:
        try:
            fd = pidfd_open(watched.pid)
        except ProcessLookupError:
            self._ended(watched)
        except OSError:  # too many open files
            self._polled.append(watched)
        else:
            # Looked at after the pidfd is open: from now on the number cannot go to another process unnoticed.
            if start_time(watched.pid) == watched.start_time:
                self._selector.register(fd, selectors.EVENT_READ, watched)
            else:
                os.close(fd)
                self._ended(watched)

    def _poll(self) -> None:
        for watched in list(self._polled):
            with suppress(ChildProcessError):
                os.waitpid(watched.pid, os.WNOHANG)
            if not watched.alive():
                self._polled.remove(watched)
                self._ended(watched)

    def _ended(self, watched: Watched) -> None:
        with suppress(ChildProcessError):  # only ours if this very process started it
            os.waitpid(watched.pid, os.WNOHANG)
        self._on_end(watched.worker)
