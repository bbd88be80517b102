"""Which cores a worker is pinned to where its CPU limit cannot be a quota."""

import math
import os
import threading
from collections import Counter
from collections.abc import Iterable

from schedulearn.core.domain.ids import WorkerId


class Cores:
    """Hands out the cores that the fewest workers are pinned to, so that pinned workers spread. Thread-safe."""

    def __init__(self, cores: Iterable[int] | None = None) -> None:
        self._all = sorted(os.sched_getaffinity(0) if cores is None else cores)
        self._held: dict[WorkerId, tuple[int, ...]] = {}
        self._lock = threading.Lock()

    def take(self, worker: WorkerId, limit: float) -> list[int]:
        """Whole cores for a limit; [] when the limit covers the machine, which is no limit."""
        count = max(1, math.ceil(limit))
        if count >= len(self._all):
            return []
        with self._lock:
            users = Counter(core for held in self._held.values() for core in held)
            chosen = sorted(sorted(self._all, key=lambda core: (users[core], core))[:count])
            self._held[worker] = tuple(chosen)
        return chosen

    def adopt(self, worker: WorkerId, cores: Iterable[int]) -> None:
        """Remember what an earlier life of the service gave out."""
        with self._lock:
            self._held[worker] = tuple(cores)

    def release(self, worker: WorkerId) -> None:
        with self._lock:
            self._held.pop(worker, None)
