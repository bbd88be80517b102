"""When the service's machine has no descriptors, processes, memory or disk left to start anything: the node pauses."""

import errno
import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

# What a start can fail with through no fault of the job. (A quota is its user's own.)
_SHORT_OF = {
    errno.EMFILE: "too many open files",
    errno.ENFILE: "too many open files",
    errno.EAGAIN: "no more processes",
    errno.ENOMEM: "no memory",
    errno.ENOSPC: "no space left on the disk",
    errno.EROFS: "the data folder is read-only",
    errno.EIO: "the disk fails",
    errno.ECHILD: "processes end as soon as they are started",
}
# The same as an engine says it, of its own machine.
_ENGINE_SHORT_OF = {
    "no space left on device": "no space left on the disk",
    "too many open files": "too many open files",
    "cannot allocate memory": "no memory",
    "read-only file system": "a read-only disk",
}
_FIRST, _MOST = 2.0, 60.0  # seconds without a try
_FILES = 16  # descriptors that a start needs at the same time
_BYTES = 1 << 20  # of disk, besides what its job brings


def shortage(number: int | None) -> str:
    """What the machine is short of, if that is what this error number says; else ""."""
    return _SHORT_OF.get(number or 0, "")


def engine_shortage(words: str) -> str:
    """What an engine's machine is short of, if that is what its words say; else ""."""
    return next((f"{why} of its engine" for mark, why in _ENGINE_SHORT_OF.items() if mark in words.lower()), "")


class Shortage:
    """Remembers that a start failed for want of something, and tries now and then whether it is there again."""

    def __init__(self, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._root, self._clock = root, clock
        self._lock = threading.Lock()
        self._why = ""
        self._try_at = 0.0
        self._pause = _FIRST
        self._calm_at = 0.0  # when starts that fail begin to be taken for a new shortage

    def note(self, why: str) -> None:
        with self._lock:
            now = self._clock()
            if not self._why:
                self._pause = _FIRST if now >= self._calm_at else min(2 * self._pause, _MOST)
                self._try_at = now + self._pause
            self._why = why

    def now(self) -> str:
        """What it is short of; "" if starts may be tried."""
        with self._lock:
            if self._why and self._clock() >= self._try_at:
                self._look()
            return self._why

    def _look(self) -> None:
        try:
            _try(self._root)
        except OSError as error:
            self._why = shortage(error.errno) or self._why
            self._pause = min(2 * self._pause, _MOST)
            self._try_at = self._clock() + self._pause
        else:
            self._why = ""
            self._calm_at = self._clock() + self._pause


def _try(root: Path) -> None:
    """What a start does, on a small scale; OSError says what is missing."""
    opened: list[int] = []
    try:
        opened += [os.open(os.devnull, os.O_RDONLY) for _ in range(_FILES)]
        with tempfile.TemporaryFile(dir=root) as file:
            file.write(b"\0" * _BYTES)
            file.flush()
            os.fsync(file.fileno())
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
    finally:
        for one in opened:
            os.close(one)
