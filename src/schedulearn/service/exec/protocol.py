"""What goes over the wire while something is done beside a job: a byte for the kind, four for the length, the content.

The API hands the same on to its clients, which read it as docs/reference/api.md says.
"""

import json
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from schedulearn.core.domain.errors import Conflict, InvalidSpec, NotFound, SchedulearnError
from schedulearn.executors.common.exec import STDERR, STDOUT, NotRunning

ALIVE, EXIT, PROBLEM, BEGUN = 0, 3, 4, 5  # besides STDOUT and STDERR
HEADER = struct.Struct(">BI")
LARGEST = 2 << 20  # bytes of one content
BEAT = 5.0  # seconds: neither side is silent for longer
SILENCE = 30.0  # seconds without a word after which the other side is given up

__all__ = ["ALIVE", "BEAT", "BEGUN", "EXIT", "HEADER", "PROBLEM", "SILENCE", "STDERR", "STDOUT"]
_ERRORS: dict[str, type[SchedulearnError]] = {"conflict": Conflict, "not_found": NotFound, "not_running": NotRunning}


def frame(kind: int, content: bytes = b"") -> bytes:
    return HEADER.pack(kind, len(content)) + content


def of_error(error: SchedulearnError) -> bytes:
    """Whatever is wrong with a node is for its user: not possible now."""
    name = next((name for name, kind in reversed(_ERRORS.items()) if isinstance(error, kind)), "conflict")
    told = {"kind": name, "detail": str(error)}
    if isinstance(error, InvalidSpec):
        told = {"kind": "invalid", "field": error.field, "problem": error.problem, "allowed": error.allowed}
    return frame(PROBLEM, json.dumps(told).encode())


def to_error(content: bytes) -> SchedulearnError:
    told: dict[str, Any] = json.loads(content)
    if told["kind"] == "invalid":
        return InvalidSpec(told["field"], told["problem"], told["allowed"])
    return _ERRORS[told["kind"]](told["detail"])


def receive(connection: socket.socket) -> tuple[int, bytes]:
    """One frame; ConnectionError if the other side hangs up, TimeoutError if it says nothing."""
    kind, size = HEADER.unpack(_receive_exactly(connection, HEADER.size))
    if size > LARGEST:
        raise ConnectionError("no frame is so large")
    return kind, _receive_exactly(connection, size)


def _receive_exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("the other side hung up")
        data += more
    return data


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Another name of a socket's path: the kernel takes 107 bytes, and data folders may lie deep."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
