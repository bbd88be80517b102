"""What strangers can have written into the log is written now and then: else they could fill the disk with it."""

import logging
import time
from collections.abc import Callable


class Sparing(logging.Filter):
    """Lets so many lines through in each window; the next one says how many were left out."""

    def __init__(self, most: int = 20, window: float = 60.0, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._most, self._window, self._now = most, window, now
        self._began = now()
        self._written = self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if self._now() - self._began >= self._window:
            if self._left_out:
                record.msg = f"{record.msg} (and {self._left_out} lines that were left out)"
            self._began, self._written, self._left_out = self._now(), 0, 0
        if self._written >= self._most:
            self._left_out += 1
            return False
        self._written += 1
        return True


_sparing = Sparing()


def spare_the_log() -> None:
    """What uvicorn says of requests that are none, and of connections that broke."""
    logging.getLogger("uvicorn.error").addFilter(_sparing)
