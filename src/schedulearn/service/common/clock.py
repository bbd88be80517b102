"""The time, as the service sees it."""

import json
import threading
import time
from contextlib import suppress
from pathlib import Path

from schedulearn.executors.common.paths import write_json
from schedulearn.executors.kernel.procfs import boot_id, steady_time

_SLEW = 0.05  # how much faster or slower than real time we may run to meet the wall clock again


class SteadyClock:
    """Wall-clock time that never jumps.

    When the machine's clock is set, forth or back, durations must not be cut short or drawn out: time limits
    and back-offs depend on them. So this clock follows the machine's steady one and drifts towards the wall
    clock's time at no more than 5 %. Any thread may ask.
    """

    def __init__(self, ahead: float | None = None) -> None:
        """`ahead` of the steady clock by so much, as in an earlier life of the service; None: as the wall clock."""
        self._steady = steady_time()
        self._now = time.time() if ahead is None else self._steady + ahead
        self._lock = threading.Lock()

    def now(self) -> float:
        with self._lock:
            steady = steady_time()
            passed, self._steady = steady - self._steady, steady
            off = time.time() - (self._now + passed)
            self._now += passed + max(-_SLEW * passed, min(_SLEW * passed, off))
            return self._now

    @property
    def ahead(self) -> float:
        """By how much it is ahead of the steady clock."""
        return self.now() - steady_time()


def resumed(file: Path) -> SteadyClock:
    """A clock that goes on as that of the last life did: the machine's may have been set meanwhile."""
    try:
        known = json.loads(file.read_text())
        return SteadyClock(float(known["ahead"]) if known["boot_id"] == boot_id() else None)
    except (OSError, ValueError, KeyError, TypeError):
        return SteadyClock()


def keep(clock: SteadyClock, file: Path) -> None:
    """For `resumed`."""
    with suppress(OSError):  # a full disk: what is written there is not much older
        write_json(file, {"boot_id": boot_id(), "ahead": clock.ahead}, 0o600)
