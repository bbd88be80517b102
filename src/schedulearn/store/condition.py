"""Whether the database can be used, as its users find out; the log is told when it is lost, and when it is back."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

_LOG = logging.getLogger(__name__)
_SOON = 1.0  # seconds within which a transaction begins where nothing is wrong
_NOT_AGAIN = 60.0  # seconds: what fails and works by turns is told once in that time


class Access(IntEnum):
    """What was done with the database. What can do one of these can do those before it."""

    READ = 1
    BEGIN = 2  # to write
    WRITE = 3


class Condition:
    """Known without asking the database, which may take long just when it matters. Thread-safe."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._waiting: dict[object, float] = {}  # since when: transactions that have not begun yet
        self._since: float | None = None  # what failed has not worked again since then
        self._failed = Access.READ
        self._told_at: float | None = None
        self._untold_back = False  # whether the log says that it is lost

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around the beginning of a transaction: that is where one waits for a database that is locked or away."""
        mine = object()
        with self._lock:
            self._waiting[mine] = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                del self._waiting[mine]

    def failed(self, access: Access, why: str, since: float) -> None:
        """`since` is when it was begun, by the monotonic clock."""
        with self._lock:
            self._failed = access if self._since is None else max(access, self._failed)
            self._since = since if self._since is None else self._since
            told = self._told_at is not None and time.monotonic() - self._told_at < _NOT_AGAIN
            if self._untold_back or told:
                return
            self._told_at, self._untold_back = time.monotonic(), True
        _LOG.warning("%s; it is tried again until it can be used", why)

    def worked(self, access: Access) -> None:
        if self._since is None:  # nearly always, and then no wait for the lock is needed
            return
        with self._lock:
            if self._since is None or access < self._failed:
                return
            lost_for, self._since = time.monotonic() - self._since, None
            told, self._untold_back = self._untold_back, False
        if told:
            _LOG.warning("the database %s can be used again, after %.0f s", self._place, lost_for)

    def lost_for(self) -> float:
        """Seconds since it has not answered, or failed; 0: it can be used, as far as is known."""
        with self._lock:
            now = time.monotonic()
            slow = [began for began in self._waiting.values() if now - began > _SOON]
            since = min(slow, default=now) if self._since is None else self._since
        return now - since
