"""Whether database and scheduler are there, found out without making the caller wait."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

from schedulearn.core.domain.errors import StoreError
from schedulearn.store import Store

SOON = 0.5  # seconds in which a healthy database has answered; then what is known is told
_PROBE = 1.0  # seconds after which a look is given up


class Vitals:
    """One look at a time, in a thread of its own: all others may be waiting for the database. Thread-safe."""

    def __init__(self, store: Store, scheduler_seen: Callable[[], float | None], clock: Callable[[], float]) -> None:
        self._store, self._scheduler_seen, self._clock = store.hurried(_PROBE), scheduler_seen, clock
        self._lock = threading.Lock()
        self._looking: Future[None] | None = None
        self.scheduler_age: float | None = None  # seconds, at the last look that was answered; None: there was none

    def look(self) -> "Future[None]":
        """Look now, unless a look is under way; it is done when the database has answered, or is given up."""
        with self._lock:
            if self._looking is None:
                self._looking = Future()
                threading.Thread(target=self._find_out, args=(self._looking,), name="vitals", daemon=True).start()
            return self._looking

    def lost_since(self) -> float | None:
        """Since when the database cannot be used; None: it can, as far as is known. Never waits."""
        lost_for = self._store.lost_for()
        return self._clock() - lost_for if lost_for else None

    def _find_out(self, looking: "Future[None]") -> None:
        try:
            with suppress(StoreError):  # it remembers that itself
                seen = self._scheduler_seen()
                self.scheduler_age = None if seen is None else max(0.0, self._clock() - seen)
                self._store.probe()
        finally:
            with self._lock:
                self._looking = None
            looking.set_result(None)
