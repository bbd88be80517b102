"""What is done again and again, in a thread of its own, and how its faults are told."""

import logging
import sys
import threading
import time
from abc import ABC, abstractmethod

from schedulearn.core.domain.errors import StoreAway

_LOG = logging.getLogger(__name__)


def log_fault(log: logging.Logger, words: str, *args: object, level: int = logging.WARNING) -> None:
    """Called where the exception was caught: with its traceback, unless it is one that the log was told of already.

    A database that is away is met by every loop again and again; the store tells it once, and once when it is back.
    """
    told = isinstance(sys.exception(), StoreAway)
    log.log(logging.DEBUG if told else level, words, *args, exc_info=True)


class Repeating(ABC):
    """Calls `look` until it is closed. What fails is told to the log, and tried again at the next look."""

    def __init__(self, name: str, every: float, trouble: str, first: float | None = None, rest: float = 0.0) -> None:
        """`trouble` is what the log says. `first` are the seconds until the first look, if not `every`.

        `rest`: it waits at least so many times as long as the last look took, so that there is time for others.
        """
        self._name, self._every, self._trouble = name, every, trouble
        self._first, self._rest = every if first is None else first, rest
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name=name, daemon=True)

    @abstractmethod
    def look(self) -> object: ...

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Returns at once: a look that is under way comes to its end by itself."""
        self._stop.set()

    def _repeat(self) -> None:
        wait = self._first
        while not self._stop.wait(wait):
            began = time.monotonic()
            try:
                self.look()
            except Exception:  # a full disk, a database that is busy: the next look may do
                log_fault(_LOG, self._trouble)
            wait = max(self._every, self._rest * (time.monotonic() - began))
