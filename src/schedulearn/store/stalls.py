"""Connections whose server does not answer any more: what waits for it is told, instead of waiting without end.

A server that is stopped, or gone without a word, leaves its connections open, and the driver waits for ever.
"""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol


class HasSocket(Protocol):
    def fileno(self) -> int: ...


class StallGuard:
    """Cuts connections whose answer is overdue; the driver then tells that as an error. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._watched: dict[socket.socket, float] = {}  # until when, by the monotonic clock
        self._thread: threading.Thread | None = None

    @contextmanager
    def within(self, connection: HasSocket, seconds: float) -> Iterator[None]:
        """Cut the connection if what is done here takes longer."""
        # A descriptor of our own: the driver may close its own at any time, and the number be given to another file.
        mine = socket.socket(fileno=os.dup(connection.fileno()))
        with self._changed:
            self._watched[mine] = time.monotonic() + seconds
            self._begin()
        try:
            yield
        finally:
            with self._changed:
                self._watched.pop(mine, None)
            mine.close()

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="stalls", daemon=True)
            self._thread.start()
        self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                for one in [one for one, until in self._watched.items() if until <= now]:
                    del self._watched[one]
                    with suppress(OSError):  # it has just been closed
                        one.shutdown(socket.SHUT_RDWR)
                # With nothing to watch it sleeps; a new one notifies.
                self._changed.wait(min(self._watched.values()) - now if self._watched else None)
