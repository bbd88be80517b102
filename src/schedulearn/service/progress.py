"""Progress that a job did not report itself: what is found in its output, its event files and its spool."""

import json
import logging
import math
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from schedulearn.domain.errors import NotFound
from schedulearn.domain.ids import WorkerId
from schedulearn.domain.ports import Clock
from schedulearn.domain.spec import Metric
from schedulearn.executors.common import logs
from schedulearn.service.boards import BoardWatcher, Folders
from schedulearn.service.output import LONGEST, Reader, clean
from schedulearn.service.reports import add_reports
from schedulearn.store import Found, Point, Store

_LOG = logging.getLogger(__name__)
_EVERY = 1.0  # seconds between two looks at the output of all running jobs
_CHUNK = 1 << 18  # bytes read at once
_BEHIND = 1 << 22  # a job that prints faster than this between two looks is read from its latest output on
_LONGEST_REST = 4 * LONGEST  # bytes of a line without an end that are kept
_REWRITES = re.compile(rb"\r|\x08{2,}")  # a progress bar goes back to the beginning of its line


@dataclass(slots=True)
class _Watched:
    worker: WorkerId
    folder: Path  # of the worker
    name: str  # of the metric
    reader: Reader
    offset: int  # how far its output was read
    stored: int  # how far the store says it was
    rest: bytes = b""  # the beginning of a line, or of a new state of it, that is not complete yet
    points: list[Point] = field(default_factory=list)  # that are not stored yet

    def take(self) -> Found | None:
        """What the store does not have yet."""
        whole = self.offset - len(self.rest)
        if whole == self.stored and not self.points:
            return None
        found, self.stored, self.points = Found(self.worker, whole, self.points), whole, []
        return found


class ProgressWatcher:
    """Reads the output of running workers as it grows, and the event files of their jobs."""

    def __init__(
        self,
        store: Store,
        folder_of: Callable[[WorkerId], Path],
        clock: Clock,
        job_folders: Folders = lambda _: (),
    ) -> None:
        """`job_folders` are those of a job in which it may write event files."""
        self._store, self._folder_of, self._clock = store, folder_of, clock
        self._boards = BoardWatcher(store, job_folders, clock)
        self._watched: dict[WorkerId, _Watched] = {}
        self._lock = threading.Lock()  # also keeps one look at a time
        self._stop = threading.Event()

    def watch(self, worker: WorkerId, metric: Metric, leads: bool = False) -> None:
        """Follow this worker from where it was last read, if it is the first, or leads those who are left."""
        self._boards.watch(worker, metric)
        if worker.rank != 0 and not leads:
            return  # the workers of a data-parallel job print the same loss
        with self._lock:
            if worker in self._watched:
                return
            offset = self._store.pattern_offset(worker)
            known = {series.name: series.step for series in self._store.series_of(worker.job)}
            reader = Reader(metric, known.get(metric.name, 0), from_beginning=offset == 0)
            self._watched[worker] = _Watched(worker, self._folder_of(worker), metric.name, reader, offset, offset)

    def finish(self, worker: WorkerId) -> None:
        """The worker has ended: read what is left, then stop following."""
        with self._lock:
            watched = self._watched.pop(worker, None)
            if watched:
                self._quietly(partial(self._read, watched, last=True))
                self._quietly(partial(self._keep, [watched]))
        self._boards.finish(worker)
        self._quietly(partial(self._take_spool, worker))

    def start(self) -> None:
        self._boards.start()
        threading.Thread(target=self._run, name="progress", daemon=True).start()

    def close(self) -> None:
        self._boards.close()
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(_EVERY):
            self.look()

    def look(self) -> None:
        """See what is new in the output of all workers."""
        for worker in list(self._watched):
            with self._lock:
                if watched := self._watched.get(worker):
                    self._quietly(partial(self._read, watched))
        with self._lock:
            self._quietly(partial(self._keep, self._watched.values()))

    def _quietly(self, look: Callable[[], None]) -> None:
        """Watching must never disturb scheduling: what cannot be read now is read at the next look, or not at all."""
        try:
            look()
        except NotFound:
            pass  # the job was deleted meanwhile
        except Exception:
            _LOG.warning("progress could not be read", exc_info=True)

    def _read(self, watched: _Watched, *, last: bool = False) -> None:
        folder = watched.folder / "log"
        end = logs.read(folder, None, 0).end
        if end <= watched.offset and not (last and watched.rest):
            return
        if end - watched.offset > _BEHIND:
            watched.offset, watched.rest = end - _BEHIND, b""
        while watched.offset < end:
            chunk = logs.read(folder, watched.offset, _CHUNK)
            if not chunk.data:
                break
            if chunk.offset != watched.offset:
                watched.rest = b""  # the oldest output was removed meanwhile: what follows is another line
            watched.points += self._points(watched, chunk.offset, chunk.data)
            watched.offset = chunk.next_offset
        if last and watched.rest:
            watched.points += self._points(watched, watched.offset, b"\n")

    def _keep(self, watched: Iterable[_Watched]) -> None:
        """One transaction for all: each costs as much as reading hundreds of lines."""
        found = [new for each in watched if (new := each.take())]
        if found:
            self._store.add_found(found)

    def _points(self, watched: _Watched, offset: int, data: bytes) -> Iterator[Point]:
        start = offset - len(watched.rest)
        *lines, rest = (watched.rest + data).split(b"\n")
        for line in lines:
            yield from self._newest(watched, start, line, ended=True)
            start += len(line) + 1
        # A bar may go on for hours in one line. What stands before its last return to the beginning is a whole state.
        whole = max((found.end() for found in _REWRITES.finditer(rest)), default=0)
        yield from self._newest(watched, start, rest[:whole], ended=False)
        watched.rest = rest[whole:][-_LONGEST_REST:]  # an endless line must not grow here without end

    def _newest(self, watched: _Watched, start: int, line: bytes, *, ended: bool) -> Iterator[Point]:
        """What the newest state of a line says."""
        end = len(line)
        for back in [*reversed(list(_REWRITES.finditer(line))), None]:
            begin = back.end() if back else 0
            text = clean(line[begin:end])
            if text.strip():
                if found := watched.reader.read(text, ended):
                    # The place in the output numbers the point: read twice, it is stored once.
                    yield Point(start + begin + 1, self._clock.now(), found[0], watched.name, found[1])
                return
            end = back.start() if back else 0

    def _take_spool(self, worker: WorkerId) -> None:
        """Reports that the job could not deliver while the service was away."""
        spool = self._folder_of(worker) / "spool.jsonl"
        if not spool.exists():
            return
        points: list[Point] = []
        for line in spool.read_bytes().splitlines():
            points += _points_of(line)
        if points:
            points.sort()
            add_reports(self._store, worker, points)


def _points_of(line: bytes) -> list[Point]:
    """One line of a spool; a line that was cut off by a crash has nothing."""
    try:
        report: dict[str, Any] = json.loads(line)
        seq, at, step = int(report["seq"]), float(report["at"]), int(report["step"])
        values = [(str(name), float(value)) for name, value in report["values"].items()]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return []
    return [Point(seq, at, step, name, value) for name, value in values if not math.isinf(at)]
