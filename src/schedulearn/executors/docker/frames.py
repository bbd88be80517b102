"""A stream of output from the engine: pieces, each with a header that says how long it is."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

_HEADER = 8  # bytes; the first says what it is, the last four are the length of what follows
_CHUNK = 1 << 16


class Frames:
    """The pieces of one answer. Iterate over them in one thread; any other may `end` it."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self._ended = False
        with suppress(AttributeError):  # the whole answer may be here already
            answer.raw.connection.sock.settimeout(None)  # a program may be silent for days

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._pieces()
        except Exception:
            if not self._ended:
                raise
        finally:
            self._answer.close()

    def end(self) -> None:
        """A thread that waits for the next piece gets none."""
        self._ended = True
        with suppress(AttributeError, OSError):  # it has ended by itself
            self._answer.raw.connection.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._answer.close()

    def _pieces(self) -> Iterator[bytes]:
        waiting = b""
        for chunk in self._answer.iter_content(_CHUNK):
            pieces, waiting = cut(waiting + chunk)
            yield from (piece for _, piece in pieces)


def cut(waiting: bytes) -> tuple[list[tuple[int, bytes]], bytes]:
    """The pieces that are whole, each with its kind (1: standard output, 2: standard error); and the rest."""
    pieces, place = [], 0
    while len(waiting) - place >= _HEADER:
        end = place + _HEADER + int.from_bytes(waiting[place + 4 : place + _HEADER], "big")
        if end > len(waiting):
            break
        pieces.append((waiting[place], waiting[place + _HEADER : end]))
        place = end
    return pieces, waiting[place:]
