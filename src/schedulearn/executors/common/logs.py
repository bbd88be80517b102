"""Read a worker's output from its log folder: segments named for the offset of their first byte, oldest removed first.

Safe while the shim writes and removes segments, and from any process that may read the files.
"""

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

BLOCK = 1 << 16
LONGEST_TAIL = 16 << 20  # bytes: it is put together in memory


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Some of the output."""

    offset: int  # of the first byte of `data`
    data: bytes
    next_offset: int  # where to read on
    end: int  # how much was written in all


@dataclass(frozen=True, slots=True)
class _Segment:
    offset: int
    length: int
    path: Path

    @property
    def end(self) -> int:
        return self.offset + self.length


def read(log_dir: Path, offset: int | None, limit: int) -> LogChunk:
    """At most `limit` bytes from `offset` on. None, and offsets that are gone already: from the oldest byte kept."""
    segments = _segments(log_dir)
    if not segments:
        return LogChunk(0, b"", 0, 0)
    first, end = segments[0].offset, segments[-1].end
    start = min(max(first, offset or 0), end)
    data = bytearray()
    for segment in segments:
        if segment.end <= start + len(data):
            continue
        wanted = min(limit - len(data), segment.end - start - len(data))
        if wanted <= 0:
            break
        part = _read_part(segment, start + len(data) - segment.offset, wanted)
        if part is None:  # removed while we read; nothing before it can be there either
            return read(log_dir, offset, limit)
        data += part
    return LogChunk(start, bytes(data), start + len(data), end)


def tail(log_dir: Path, lines: int) -> LogChunk:
    """The last lines, of so many bytes at most. A last line without its line end counts as one."""
    segments = _segments(log_dir)
    end = segments[-1].end if segments else 0
    first = segments[0].offset if segments else 0
    first = max(first, end - LONGEST_TAIL)
    start = end
    blocks: list[bytes] = []
    found = -1  # line ends; the last one ends the last line
    while start > first and found < lines and lines > 0:
        step = max(first, start - BLOCK)
        chunk = read(log_dir, step, start - step)
        if chunk.offset != step or len(chunk.data) != start - step:  # it was rotated away under our hands
            break
        start, found = step, found + chunk.data.count(b"\n")
        blocks.append(chunk.data)
    data = b"".join(reversed(blocks))
    cut = _cut(data, lines)
    return LogChunk(start + cut, data[cut:], end, end)


def size(log_dir: Path) -> int:
    """Bytes kept on disk."""
    return sum(segment.length for segment in _segments(log_dir))


def _cut(data: bytes, lines: int) -> int:
    """Where the last `lines` lines begin."""
    if lines <= 0:
        return len(data)
    position = len(data) - 1 if data.endswith(b"\n") else len(data)
    for _ in range(lines):
        position = data.rfind(b"\n", 0, position)
        if position < 0:
            return 0
    return position + 1


def _segments(log_dir: Path) -> list[_Segment]:
    found = []
    for path in log_dir.glob("*.log"):
        try:
            info = path.lstat()
        except FileNotFoundError:
            continue
        if stat.S_ISREG(info.st_mode) and path.stem.isascii() and path.stem.isdigit():
            found.append(_Segment(int(path.stem), info.st_size, path))
    return sorted(found, key=lambda segment: segment.offset)


def _read_part(segment: _Segment, skip: int, count: int) -> bytes | None:
    try:
        handle = os.open(segment.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            return None
        raise
    try:
        return os.pread(handle, count, skip)
    finally:
        os.close(handle)
