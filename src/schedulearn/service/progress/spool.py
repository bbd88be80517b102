"""Reports that a job wrote down but could not deliver. The job owns the file, and may have made anything of it."""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from schedulearn.service.common.effort import Effort
from schedulearn.store import Point

_MOST_BYTES = 32 << 20  # that are read; the library keeps a spool below 16 MiB
_LONGEST_LINE = 1 << 18  # bytes: a report of a hundred long names
_MOST_VALUES = 100  # of one report, as over the API
_LATEST = 1e11  # seconds since the epoch, as over the API
_AT_ONCE = 5000  # points that are handed on together
_EFFORT = 5.0  # seconds of the processor for one spool
_CHUNK = 1 << 18
_DROPPED = b'{"dropped": '  # how the line begins that says how many reports are missing
_PLAINLY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # no link is followed, no pipe waited for


def spooled(path: Path) -> Iterator[list[Point]]:
    """What a spool holds, some points at a time, in the order of the file. Nothing, if it is no plain file."""
    with _opened(path) as handle:
        if handle:
            yield from _batches(handle, Effort(_EFFORT))


def dropped(path: Path) -> int:
    """How many reports the job says it had to drop, besides those in the spool."""
    with _opened(path) as handle:
        return max((_said(line) for line in _lines(handle) if line.startswith(_DROPPED)), default=0) if handle else 0


def _said(line: bytes) -> int:
    number = line[len(_DROPPED) :].removesuffix(b"}")
    return int(number) if number.isdigit() and len(number) < 16 else 0


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """0: it is no plain file."""
    try:
        handle = os.open(path, _PLAINLY)
    except OSError:  # there is none, or it is a link
        yield 0
        return
    try:
        yield handle if stat.S_ISREG(os.fstat(handle).st_mode) else 0
    finally:
        os.close(handle)


def _batches(handle: int, effort: Effort) -> Iterator[list[Point]]:
    points: list[Point] = []
    for line in _lines(handle):
        points += points_of(line)
        if len(points) >= _AT_ONCE:
            yield points
            points = []
        if effort.spent:
            break
    if points:
        yield points


def _lines(handle: int) -> Iterator[bytes]:
    """One at a time; those that are too long are left out."""
    rest, too_long = b"", False
    for chunk in _chunks(handle):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if not too_long:
                yield line
            too_long = False
        if len(rest) > _LONGEST_LINE:
            rest, too_long = b"", True
    if not too_long:
        yield rest


def _chunks(handle: int) -> Iterator[bytes]:
    """The first bytes that were ever written: holes are stepped over, however large they are."""
    place, left = 0, _MOST_BYTES
    while left > 0:
        try:
            data = os.lseek(handle, place, os.SEEK_DATA)
        except OSError:  # nothing but a hole follows, or nothing at all
            return
        if data > place:
            yield b"\n"  # whatever line the hole is in, it is no report
        chunk = os.pread(handle, min(_CHUNK, left), data)
        if not chunk:
            return
        yield chunk
        place, left = data + len(chunk), left - len(chunk)


def points_of(line: bytes) -> list[Point]:
    """One line of a spool; a line that was cut off by a crash has nothing."""
    with suppress(ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        report: dict[str, Any] = json.loads(line)
        seq, at, step = int(report["seq"]), float(report["at"]), int(report["step"])
        values = [(str(name), float(value)) for name, value in report["values"].items()]
        if 0 <= at <= _LATEST and min(seq, step) >= 0 and len(values) <= _MOST_VALUES:
            return [Point(seq, at, step, name, value) for name, value in values]
    return []
