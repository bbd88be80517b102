"""Only one process may play a role on a data folder."""

import fcntl
import json
import os
import socket
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO

from schedulearn.core.domain.errors import RoleTaken
from schedulearn.core.domain.ports import Clock
from schedulearn.service.common.config import DataFolder, Options
from schedulearn.store import Store

TTL = 30.0  # seconds after which another host may take over from a scheduler that no longer renews its lease
RENEW_EVERY = 10.0
_NAMES = {"api": "API", "scheduler": "scheduler"}


class RoleLock:
    """A lock on a file of the data folder, held as long as this process lives, however it ends."""

    def __init__(self, folder: DataFolder, role: str) -> None:
        self._path = folder.lock(role)
        self._file: IO[str] | None = None
        self._role = role

    def __enter__(self) -> "RoleLock":
        """RoleTaken, naming the holder, if another process has it."""
        # A process that can open a file can lock it, and keep the service from starting.
        file = open(self._path, "a+", opener=partial(os.open, mode=0o600))
        try:
            os.fchmod(file.fileno(), 0o600)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise RoleTaken(self._taken()) from None
        file.truncate(0)
        json.dump({"pid": os.getpid()}, file)
        file.flush()
        self._file = file
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()
            self._file = None

    def _taken(self) -> str:
        try:
            pid = json.loads(self._path.read_text())["pid"]
        except (OSError, ValueError, KeyError):
            pid = "unknown"
        return (
            f"another process (pid {pid}) already runs the {_NAMES[self._role]} on {self._path.parent}. "
            f"Stop it with `schedulearn down --data {self._path.parent}`, or choose another --data folder."
        )


def refuse_if_taken(options: Options) -> None:
    """RoleTaken if another process plays one of these roles."""
    for role in sorted(options.roles):
        if options.folder.lock(role).exists():
            with RoleLock(options.folder, role):
                pass


class SchedulerLease:
    """The scheduler's lease in the store. Its number fences every write of a scheduler that was replaced."""

    def __init__(self, store: Store, clock: Clock, folder: Path, on_renewal: Callable[[], None] = lambda: None) -> None:
        self._store, self._clock, self._on_renewal = store, clock, on_renewal
        host = socket.gethostname()
        self._holder = f"{host}:{folder}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self.fence = 0
        self._renewed_at = 0.0

    def take(self, *, shared_database: bool) -> None:
        """Call with the data folder's lock held: on a database of our own no other scheduler can be alive then."""
        self._renewed_at = self._clock.now()
        self.fence = self._store.take_role("scheduler", self._holder, self._renewed_at, TTL, steal=not shared_database)

    def renew_if_due(self) -> None:
        now = self._clock.now()
        if now - self._renewed_at >= RENEW_EVERY:
            self._store.renew_role("scheduler", self.fence, now)
            self._renewed_at = now
            self._on_renewal()

    def release(self) -> None:
        self._store.release_role("scheduler", self.fence)
