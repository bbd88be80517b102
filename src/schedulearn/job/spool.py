"""The file in which reports wait until the service has them. Several processes of one worker may share it.

Every point is written here before it is sent, so a program that is killed loses only what it had not handed over
yet; what it leaves behind is read by the service. Beside the file there is its state: how many of its bytes were
sent, the last number given, and how many points were dropped because there were too many. Numbers only grow, in the
order of the file: the service ignores a point whose number is not above those it has, so a point that is sent twice
counts once. How many were dropped is in the file, too, as a line of its own that is never sent: the service reads it
there when the worker has ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

Point = dict[str, Any]  # {"seq", "at", "step", "values"}; without "seq" until it is numbered
DEFAULT_CAP = 16 * 1024**2  # bytes; above it every second waiting point is dropped
_MOST_AT_ONCE = 500_000  # bytes of a batch, about: the service takes no larger body than twice that
_LONGEST_NUMBER = len('"seq": 9223372036854775807}\n')
_LOCK_PATIENCE = 1.0  # seconds; its holder needs it for a moment only

_encode = json.JSONEncoder().encode


class Batch(NamedTuple):
    lines: list[bytes]  # a point each, as JSON: to read them only to write them again would cost more than all the rest
    end: int  # where it ends in the file
    edition: int  # of the file: another after it was thinned

    @property
    def points(self) -> list[Point]:
        return [json.loads(line) for line in self.lines]


class _State(NamedTuple):
    sent: int = 0  # bytes at the start of the file that the service has
    seq: int = 0  # the last number given
    edition: int = 0
    dropped: int = 0  # points, of all processes of this worker


class Spool:
    def __init__(self, path: Path, cap: int = DEFAULT_CAP) -> None:
        self._path, self._cap = path, cap
        self._state_path = path.with_name(path.name + ".state")
        self._sender_path = path.with_name(path.name + ".sender")

    def append(self, points: list[Point], dropped: int = 0) -> None:
        """Number the points and write them, and that so many more were dropped before.

        OSError if the disk does not take them: then nothing was written.
        """
        with self._locked() as handle, open(self._path, "ab", buffering=0) as file:
            state = self._read_state(handle)
            numbered = number(points, state.seq)
            # Numbers are taken before they are used: a gap does no harm, a number used twice would.
            state = state._replace(seq=numbered[-1]["seq"])
            self._write_state(handle, state)
            end = os.fstat(file.fileno()).st_size
            data = b"".join(as_line(point) for point in numbered)
            if dropped:
                state = state._replace(dropped=state.dropped + dropped)
                data = _marker(state) + data
            if end and not self._ends_with_newline(end):
                data = b"\n" + data  # the writer of the last line was killed over it
            try:
                _write_all(file.fileno(), data)
            except OSError:
                os.ftruncate(file.fileno(), end)
                raise
            if dropped:
                self._write_state(handle, state)
            if end + len(data) > self._cap:
                with suppress(OSError):
                    self._thin(handle)

    def next_batch(self, most: int) -> Batch:
        """The oldest points that were not sent."""
        with self._locked() as handle:
            state = self._read_state(handle)
            start = end = state.sent
            lines: list[bytes] = []
            if not self._path.exists():
                return Batch(lines, end, state.edition)
            with open(self._path, "rb") as file:
                file.seek(end)
                while len(lines) < most and end - start < _MOST_AT_ONCE and (line := file.readline()):
                    end += len(line)
                    if _is_whole(line):
                        lines.append(line)
            return Batch(lines, end, state.edition)

    def confirm(self, batch: Batch) -> None:
        """The service has these points. Once it has all, the file starts again."""
        with self._locked() as handle:
            state = self._read_state(handle)
            if state.edition != batch.edition:
                return  # thinned meanwhile; what is still in it will be sent again, and counts once
            sent = batch.end
            if self._path.exists() and sent >= self._path.stat().st_size:
                self._path.write_bytes(_marker(state))
                sent = 0
            self._write_state(handle, state._replace(sent=sent))

    @contextmanager
    def sending(self) -> Iterator[bool]:
        """Whether this process may send now: one does at a time, for all of them, so that the order is kept."""
        with _opened(self._sender_path) as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            try:
                yield True
            finally:
                fcntl.flock(handle, fcntl.LOCK_UN)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        deadline = time.monotonic() + _LOCK_PATIENCE
        with _opened(self._state_path) as handle:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:  # its holder is suspended, perhaps
                        raise
                    time.sleep(0.002)
            try:
                yield handle
            finally:
                # Closing is not enough: a child forked just now holds the same open file, and with it the lock.
                fcntl.flock(handle, fcntl.LOCK_UN)

    def _read_state(self, handle: int) -> _State:
        try:
            state = _State(*(int(part) for part in os.pread(handle, 100, 0).split()))
        except (ValueError, TypeError):
            return _State()
        # Shorter than what was sent: it was emptied by a process that was killed before it could say so.
        size = self._path.stat().st_size if self._path.exists() else 0
        return state if state.sent <= size else state._replace(sent=0)

    def _write_state(self, handle: int, state: _State) -> None:
        os.pwrite(handle, b"%020d %020d %020d %020d\n" % state, 0)

    def _ends_with_newline(self, end: int) -> bool:
        with open(self._path, "rb") as file:
            file.seek(end - 1)
            return file.read(1) == b"\n"

    def _thin(self, handle: int) -> None:
        """Keep every second waiting point, and always the newest."""
        state = self._read_state(handle)
        lines = self._path.read_bytes()[state.sent :].splitlines(keepends=True)
        waiting = [line for line in lines if _is_whole(line)]
        kept = waiting[::-2][::-1]
        dropped = state.dropped + len(waiting) - len(kept)
        state = state._replace(sent=0, edition=state.edition + 1, dropped=dropped)
        temporary = self._path.with_name(self._path.name + ".new")
        temporary.write_bytes(b"".join([_marker(state), *kept]))
        self._write_state(handle, state)
        temporary.replace(self._path)


def as_line(point: Point) -> bytes:
    """The number comes last: a line that was cut off has none."""
    return _encode(point).encode() + b"\n"


def _marker(state: _State) -> bytes:
    return b'{"dropped": %d}\n' % state.dropped if state.dropped else b""


def _is_whole(line: bytes) -> bool:
    """Its writer may have been killed over it."""
    return line.endswith(b"}\n") and b'"seq": ' in line[-_LONGEST_NUMBER:]


def number(points: list[Point], last: int) -> list[Point]:
    """The points with their numbers: microseconds since the epoch, always above `last`. A number that fits is kept."""
    now = time.time_ns() // 1000
    numbered = []
    for point in points:
        last = max(last + 1, point.get("seq", now))
        numbered.append({**point, "seq": last})
    return numbered


def _write_all(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)
