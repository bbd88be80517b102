"""The time, as the service sees it."""

import threading
import time

_SLEW = 0.05  # how much faster or slower than real time we may run to meet the wall clock again


class SteadyClock:
    """Wall-clock time that never jumps.

    When the machine's clock is set, forth or back, durations must not be cut short or drawn out: time limits
    and back-offs depend on them. So this clock follows the machine's steady one and drifts towards the wall
    clock's time at no more than 5 %. Any thread may ask.
    """

    def __init__(self) -> None:
        self._now = time.time()
        self._steady = _steady()
        self._lock = threading.Lock()

    def now(self) -> float:
        with self._lock:
            steady = _steady()
            passed, self._steady = steady - self._steady, steady
            off = time.time() - (self._now + passed)
            self._now += passed + max(-_SLEW * passed, min(_SLEW * passed, off))
            return self._now


def _steady() -> float:
    # Unlike the monotonic clock this one goes on while a laptop sleeps.
    return time.clock_gettime(time.CLOCK_BOOTTIME)
