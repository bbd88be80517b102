"""Keep a worker's output under a cap. Part of the shim: standard library only, few imports."""
# ruff: noqa: PTH108, PTH208
# (part of the shim: importing pathlib would double its time to start)

from __future__ import annotations

import os
from contextlib import suppress


class LogWriter:
    """Bytes into numbered segments under a total cap; the oldest go first. A full disk loses bytes, never the job."""

    def __init__(self, folder: str, cap: int) -> None:
        self.folder = folder
        self.segment_size = max(1, cap // 8)
        self.segments: list[int] = []  # offsets of the first bytes
        self.fd = -1
        self.filled = 0  # bytes in the newest segment
        self.lost = 0  # bytes dropped since the last that could be written

    @classmethod
    def resumed(cls, folder: str, cap: int) -> LogWriter:
        """Goes on where an earlier writer of this folder was killed."""
        writer = cls(folder, cap)
        names = os.listdir(folder)
        writer.segments = sorted(int(name[:-4]) for name in names if name.endswith(".log") and name[:-4].isdigit())
        if writer.segments:
            writer.fd = os.open(writer._path(writer.segments[-1]), os.O_WRONLY | os.O_APPEND)
            writer.filled = os.fstat(writer.fd).st_size
        return writer

    @property
    def end(self) -> int:
        """How much was written in all."""
        return self.segments[-1] + self.filled if self.segments else 0

    def write(self, data: bytes) -> None:
        if self.lost:
            note = f"\n[schedulearn: {self.lost} bytes of output lost: disk full]\n".encode()
            if not self._put_whole(note):
                self.lost += len(data)
                return
            self.lost = 0
        view = memoryview(data)
        while view:
            written = self.put(view)
            if not written:
                self.lost += len(view)
                return
            view = view[written:]

    def close(self) -> None:
        self.write(b"")
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def put(self, view: memoryview) -> int:
        """Write some of it; 0: the disk takes nothing now."""
        try:
            if self.fd < 0 or self.filled >= self.segment_size:
                self._next_segment()
            written = os.write(self.fd, view[: self.segment_size - self.filled])
        except OSError:
            return 0
        self.filled += written
        return written

    def _put_whole(self, note: bytes) -> bool:
        """A note may run past the segment's size, but half a note would only confuse."""
        try:
            if self.fd < 0 or self.filled >= self.segment_size:
                self._next_segment()
            written = os.write(self.fd, note)
            if written < len(note):
                os.ftruncate(self.fd, self.filled)
                return False
        except OSError:
            return False
        self.filled += written
        return True

    def _next_segment(self) -> None:
        offset = self.end
        while len(self.segments) >= 8:
            with suppress(FileNotFoundError):
                os.unlink(self._path(self.segments[0]))
            del self.segments[0]
        fd = os.open(self._path(offset), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC, 0o640)
        if self.fd >= 0:
            os.close(self.fd)
        self.fd, self.filled = fd, 0
        self.segments.append(offset)

    def _path(self, offset: int) -> str:
        return f"{self.folder}/{offset:015d}.log"
