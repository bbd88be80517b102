"""How often something is done that costs time."""

from __future__ import annotations

import time


class Pace:
    """Says when it is time for the next save: at once, then every so many seconds; None: never."""

    def __init__(self, seconds: float | None) -> None:
        if seconds is not None and not seconds >= 0:
            raise ValueError(f"save_every is {seconds}; it must be a number of seconds, at least 0, or None")
        self._seconds = seconds
        self._last: float | None = None

    def due(self) -> bool:
        if self._seconds is None:
            return False
        return self._last is None or time.monotonic() - self._last >= self._seconds

    def done(self) -> None:
        self._last = time.monotonic()
