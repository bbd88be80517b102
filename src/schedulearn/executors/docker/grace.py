"""How long workers that were told to end may still take."""

import threading
import time

from schedulearn.core.domain.ids import WorkerId


class Grace:
    """Thread-safe. Times are on the monotonic clock."""

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
