"""Progress that a job did not report itself: what is found in its output, its event files and its spool."""

import logging
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from schedulearn.core.domain.errors import NotFound
from schedulearn.core.domain.ids import WorkerId
from schedulearn.core.domain.job import HistoryEvent
from schedulearn.core.domain.ports import Clock
from schedulearn.core.domain.spec import Metric
from schedulearn.executors.common import logs
from schedulearn.executors.common.paths import SPOOL
from schedulearn.service.common.effort import Effort
from schedulearn.service.common.repeating import Repeating, log_fault
from schedulearn.service.progress.event_files import EventFileWatcher, Folders
from schedulearn.service.progress.output import LONGEST, Reader, clean
from schedulearn.service.progress.reports import add_reports, say_missing
from schedulearn.service.progress.spool import dropped, spooled
from schedulearn.store import GIVEN_UP, Found, Point, Store

_LOG = logging.getLogger(__name__)
_EVERY = 1.0  # seconds between two looks at the output of all running jobs
_CHUNK = 1 << 16  # bytes read at once
_BEHIND = 1 << 22  # a job that prints faster than this between two looks is read from its latest output on
_EFFORT = 0.25  # seconds of the processor for the output of one job in one look; the rest is read at the next
_LAST_EFFORT = 1.0  # when it has ended: there is no next look
_LAST_OUTPUT = 1 << 16  # bytes that are then read in any case
_LONGEST_REST = 4 * LONGEST  # bytes of a line without an end that are kept
_LONGEST_CAUSE = 500  # characters
_TRIES = 3  # times that output is searched, should the service die over it; then it is left out
_STATES = 64  # of one line that are looked at for the newest which says something
_REWRITES = re.compile(rb"\r|\x08{2,}")  # a progress bar goes back to the beginning of its line


class _MatchingFailed(Exception):
    """This job's output cannot be searched."""


@dataclass(slots=True)
class _Watched:
    worker: WorkerId
    folder: Path  # of the worker
    name: str  # of the metric
    reader: Reader
    offset: int  # how far its output was read
    stored: int  # how far the store says it was
    claimed: bool = False  # whether the store knows that it is being searched
    rest: bytes = b""  # the beginning of a line, or of a new state of it, that is not complete yet
    points: list[Point] = field(default_factory=list)  # that are not stored yet

    @property
    def end(self) -> int:
        """How much it has printed."""
        return logs.read(self.folder / "log", None, 0).end

    @property
    def unstored(self) -> Found | None:
        """What the store does not have yet."""
        whole = self.offset - len(self.rest)
        news = self.points or whole != self.stored or self.claimed
        return Found(self.worker, whole, list(self.points)) if news else None

    def note_stored(self, found: Found) -> None:
        self.stored, self.claimed = found.offset, False
        del self.points[: len(found.points)]


class ProgressWatcher(Repeating):
    """Reads the output of running workers as it grows, and the event files of their jobs."""

    def __init__(
        self,
        store: Store,
        folder_of: Callable[[WorkerId], Path],
        clock: Clock,
        job_folders: Folders = lambda _: (),
    ) -> None:
        """`job_folders` are those of a job in which it may write event files."""
        super().__init__("progress", _EVERY, "progress could not be read", rest=1.0)  # however much is printed
        self._store, self._folder_of, self._clock = store, folder_of, clock
        self._event_files = EventFileWatcher(store, job_folders, clock)
        self._watched: dict[WorkerId, _Watched] = {}
        self._ended: dict[WorkerId, _Watched] = {}  # those of which not all is read and stored
        self._spools: set[WorkerId] = set()  # of workers that ended, and not stored yet
        self._lock = threading.Lock()  # also keeps one look at a time

    def watch(self, worker: WorkerId, metric: Metric, leads: bool = False) -> None:
        """Follow this worker from where it was last read, if it is the first, or leads those that are left."""
        self._event_files.watch(worker, metric)
        if worker.rank != 0 and not leads:
            return  # the workers of a data-parallel job print the same loss
        with self._lock:
            if worker not in self._watched:
                self._begin(worker, metric)

    def _begin(self, worker: WorkerId, metric: Metric) -> None:
        offset, tries = self._store.output_place(worker)
        if offset == GIVEN_UP:
            return
        folder = self._folder_of(worker)
        if tries >= _TRIES:
            offset = self._skip(worker, folder)
        try:
            reader = Reader(metric, self._store.last_step(worker.job, metric.name), from_beginning=offset == 0)
        except Exception as error:  # a pattern that was taken by an earlier version, say
            self._give_up(worker, error)
            return
        self._watched[worker] = _Watched(worker, folder, metric.name, reader, offset, offset)

    def _skip(self, worker: WorkerId, folder: Path) -> int:
        """What the service has died over again and again, or what was printed meanwhile, is left out."""
        end = logs.read(folder / "log", None, 0).end
        cause = f"a part of its output was not searched for its metric: the service ended {_TRIES} times over it"
        self._tell(worker, "output_skipped", cause)
        self._store.add_found([Found(worker, end)])
        return end

    def finish(self, worker: WorkerId) -> bool:
        """The worker has ended: read what is left, then stop following.

        False: the store is away, and does not have all of it yet. Until then its end must not be written down:
        after a kill, ended workers are not looked at any more.
        """
        with self._lock:
            if watched := self._watched.pop(worker, None):
                self._ended[worker] = watched
            if watched := self._ended.get(worker):
                self._conclude(watched)
        files_are_stored = self._event_files.finish(worker)
        if self._quietly(partial(self._take_spool, worker)):
            self._spools.discard(worker)
        else:
            self._spools.add(worker)
        stored = files_are_stored and worker not in self._ended and worker not in self._spools
        return stored or not self._store.lost_for()  # what fails for another reason must not keep a job from its end

    def _conclude(self, watched: _Watched) -> None:
        """Read it to its end. If that cannot be stored now, it is tried again."""
        if self._guard(watched, partial(self._read_last, watched)) and self._quietly(partial(self._keep, [watched])):
            self._ended.pop(watched.worker, None)

    def start(self) -> None:
        self._event_files.start()
        super().start()

    def close(self) -> None:
        self._event_files.close()
        super().close()

    def look(self) -> None:
        """See what is new in the output of all workers."""
        grown = {each.worker: end for each in list(self._watched.values()) if (end := each.end) > each.offset}
        with self._lock:
            news = {worker: end for worker, end in grown.items() if worker in self._watched}
            if news and not self._quietly(partial(self._claim, [self._watched[worker] for worker in news])):
                return
        for worker, end in news.items():
            with self._lock:
                if watched := self._watched.get(worker):
                    self._guard(watched, partial(self._read, watched, end, Effort(_EFFORT)))
        with self._lock:
            self._quietly(partial(self._keep, self._watched.values()))
            for watched in list(self._ended.values()):
                self._conclude(watched)
        for worker in list(self._spools):
            if self._quietly(partial(self._take_spool, worker)):
                self._spools.discard(worker)

    def _quietly(self, look: Callable[[], None]) -> bool:
        """Watching must never disturb scheduling: what cannot be read now is read at the next look, or not at all."""
        try:
            look()
        except NotFound:
            pass  # the job was deleted meanwhile
        except Exception:
            log_fault(_LOG, "progress could not be read")
            return False
        return True

    def _guard(self, watched: _Watched, read: Callable[[], None]) -> bool:
        """A job whose output cannot be searched is given up, not the others, nor the service."""

        def guarded() -> None:
            try:
                read()
            except _MatchingFailed as failure:
                self._watched.pop(watched.worker, None)
                # There is nothing left to keep.
                watched.points, watched.rest, watched.offset, watched.claimed = [], b"", watched.stored, False
                self._give_up(watched.worker, failure.__cause__ or failure)

        return self._quietly(guarded)

    def _give_up(self, worker: WorkerId, error: BaseException) -> None:
        _LOG.warning("the output of %s is not searched any more: %r", worker, error)
        cause = f"its output is not searched for its metric any more: {error}"[:_LONGEST_CAUSE]
        self._tell(worker, "output_unread", cause)
        self._store.give_up_output(worker)

    def _tell(self, worker: WorkerId, kind: str, cause: str) -> None:
        """In the story of its job; before it is so: should the service die in between, it would never be told."""
        self._store.note_once(HistoryEvent(self._clock.now(), kind, cause, worker.job, worker.attempt))

    def _claim(self, watched: Iterable[_Watched]) -> None:
        """Say that they are searched now, before anything is matched: should the service die over it, that is known,
        and after some times the same lines are left out."""
        new = [each for each in watched if not each.claimed]
        if new:
            self._store.claim_output([each.worker for each in new])
        for each in new:
            each.claimed = True

    def _read(self, watched: _Watched, end: int, effort: Effort) -> None:
        if end - watched.offset > _BEHIND:
            watched.offset, watched.rest = end - _BEHIND, b""
        while watched.offset < end:
            chunk = logs.read(watched.folder / "log", watched.offset, _CHUNK)
            if not chunk.data:
                break
            if chunk.offset != watched.offset:
                watched.rest = b""  # the oldest output was removed meanwhile: what follows is another line
            self._search(watched, chunk.offset, chunk.data, effort)
            if effort.spent:
                break

    def _read_last(self, watched: _Watched) -> None:
        end = watched.end
        if end > watched.offset:
            self._claim([watched])
            self._read(watched, end, Effort(_LAST_EFFORT))
        if end - watched.offset > _LAST_OUTPUT:  # too much to read all: the end says most
            watched.offset, watched.rest = end - _LAST_OUTPUT, b""
        if end > watched.offset:
            self._read(watched, end, Effort(_LAST_EFFORT))
        if watched.rest:
            self._search(watched, watched.offset, b"\n", Effort(_LAST_EFFORT))
            watched.offset = end

    def _keep(self, watched: Iterable[_Watched]) -> None:
        """One transaction for all: each costs as much as reading hundreds of lines."""
        found = [(each, new) for each in watched if (new := each.unstored)]
        if found:
            self._store.add_found([new for _, new in found])
        for each, new in found:
            each.note_stored(new)

    def _search(self, watched: _Watched, offset: int, data: bytes, effort: Effort) -> None:
        """Take what the data has, line by line, as far as the effort allows."""
        data, start = watched.rest + data, offset - len(watched.rest)
        begin = 0
        while (end := data.find(b"\n", begin)) >= 0:
            if end > begin:
                self._newest(watched, start + begin, data[begin:end], ended=True)
            begin = end + 1
            if effort.spent:
                watched.offset, watched.rest = start + begin, b""
                return
        # A bar may go on for hours in one line. What stands before its last return to the beginning is a whole state.
        rest = data[begin:]
        whole = max((found.end() for found in _REWRITES.finditer(rest)), default=0)
        self._newest(watched, start + begin, rest[:whole], ended=False)
        watched.offset = start + len(data)
        watched.rest = rest[whole:][-_LONGEST_REST:]  # an endless line must not grow here without end

    def _newest(self, watched: _Watched, start: int, line: bytes, *, ended: bool) -> None:
        """What the newest state of a line says."""
        end = len(line)
        for back_from, back_to in reversed(_returns(line)):
            text = clean(line[back_to:end])
            if text.strip():
                if found := _match(watched.reader, text, ended):
                    # The place in the output numbers the point: read twice, it is stored once.
                    place = start + back_to + 1
                    watched.points.append(Point(place, self._clock.now(), found[0], watched.name, found[1]))
                return
            end = back_from

    def _take_spool(self, worker: WorkerId) -> None:
        """Reports that the job could not deliver while the service was away."""
        spool = self._folder_of(worker) / SPOOL
        for points in spooled(spool):
            add_reports(self._store, worker, sorted(points), self._clock.now())
        if count := dropped(spool):
            say_missing(self._store, worker, count, self._clock.now())
        spool.unlink(missing_ok=True)  # it has been taken: another look finds nothing to do


def _returns(line: bytes) -> list[tuple[int, int]]:
    """Where the last states of a line begin: after its beginning, or after a return to it (from, to)."""
    last = deque(((found.start(), found.end()) for found in _REWRITES.finditer(line)), maxlen=_STATES)
    return [*last] if len(last) == _STATES else [(0, 0), *last]


def _match(reader: Reader, text: str, ended: bool) -> tuple[int, float] | None:
    try:
        return reader.read(text, ended)
    except Exception as error:
        raise _MatchingFailed from error
