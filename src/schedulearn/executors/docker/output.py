"""A container's output, copied into the worker's log. No byte is lost or repeated, however often it must begin anew.

The engine keeps the output, too, and can be asked for the last pieces of it. So what is written must be found again in
those: now and then the moment of a piece is noted with its place in our log (an anchor), before the piece is written.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from schedulearn.executors.common.logwriter import LogWriter

STAMP = 31  # characters that the engine puts before each piece: the moment, and a blank
SPACING = 1 << 16  # bytes of output between two anchors
MOST_ANCHORS = 4096
MISSING = "some output is missing here: the engine removed it before it could be read"


class DiskFull(OSError):
    """The service's own disk takes nothing now; the engine still has the output."""


class OutputClosed(OSError):
    """Another life may write this log by now."""


class Output:
    """The log of one worker as far as it was copied."""

    def __init__(self, folder: Path, anchors: Path, cap: int) -> None:
        folder.mkdir(exist_ok=True, mode=0o700)
        self._writer = LogWriter.resumed(str(folder), cap)
        self._lock = threading.Lock()  # once `close` has returned, nothing is written any more
        self._closed = False
        self._file = anchors
        self._end = self._writer.end
        self._anchors = {moment: place for moment, place in _read(anchors) if place <= self._end}
        self._anchored = max(self._anchors.values(), default=None)  # the latest; None: the next piece needs one
        self.latest = ""  # the moment of the last piece that is known to be here
        self._latest_place = 0

    def copy(self, frames: Iterable[bytes], whole: bool) -> int | None:
        """Take what is new of the latest output; `whole`: of all that the engine has. Returns the number of pieces.

        None: nothing was taken, as nothing in it is known. Then ask for more of it.
        """
        place: int | None = None  # where in our log the next piece belongs
        moment, count = "", 0
        for frame in frames:
            before, moment = moment, moment_of(frame)
            data = frame[STAMP:]
            if moment != before:  # the parts of a very long line have one moment
                place = self._place(moment, place, whole)
            if place is not None:
                first = moment != before
                if self._end - place < len(data):
                    count += 1
                    self._take(moment, first, data, place)
                elif first:  # an earlier life copied it
                    self.latest, self._latest_place = moment, place
                place += len(data)
        return count if place is not None or whole else None

    def note(self, text: str) -> None:
        """A line of our own."""
        self.add(f"[schedulearn: {text}]\n".encode())

    def add(self, data: bytes) -> None:
        """What is not the container's output. What follows no longer lies where the engine's count says."""
        self._anchored = None
        self._write(data)

    def close(self) -> None:
        """From any thread. Another life may go on with the log from here."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._writer.close()

    def _place(self, moment: str, place: int | None, whole: bool) -> int | None:
        """None: not found again yet, so it is known already."""
        if moment == self.latest:
            return self._latest_place
        if moment in self._anchors:
            return self._anchors[moment]
        if place is not None or not whole:
            return place
        if self._anchors and moment > max(self._anchors):
            self.note(MISSING)
        elif self._anchors:
            return None
        return self._end

    def _take(self, moment: str, first: bool, data: bytes, place: int) -> None:
        known = max(0, self._end - place)
        if first:
            if not known:
                self._anchor(moment)
            self.latest, self._latest_place = moment, place
        self._write(data[known:])

    def _anchor(self, moment: str) -> None:
        if self._anchored is not None and self._end - self._anchored < SPACING:
            return
        self._anchors[moment] = self._anchored = self._end
        if len(self._anchors) > MOST_ANCHORS:
            self._anchors = dict(list(self._anchors.items())[MOST_ANCHORS // 2 :])
            _write_all(self._file, self._anchors)
        else:
            with suppress(OSError), open(self._file, "a") as file:
                file.write(f"{moment} {self._end}\n")

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            with self._lock:
                if self._closed:
                    raise OutputClosed
                written = self._writer.put(view)
            if not written:
                raise DiskFull("the log cannot be written: disk full")
            self._end += written
            view = view[written:]


def moment_of(frame: bytes) -> str:
    return frame[: STAMP - 1].decode("ascii", "replace")


def _read(file: Path) -> Iterator[tuple[str, int]]:
    """A last line that a crash cut off does not count."""
    with suppress(FileNotFoundError):
        for line in file.read_text("ascii", "replace").splitlines():
            moment, _, place = line.partition(" ")
            if len(moment) == STAMP - 1 and place.isdigit():
                yield moment, int(place)


def _write_all(file: Path, anchors: dict[str, int]) -> None:
    temporary = file.with_name(f"{file.name}.tmp")
    with suppress(OSError):
        temporary.write_text("".join(f"{moment} {place}\n" for moment, place in anchors.items()))
        temporary.replace(file)
