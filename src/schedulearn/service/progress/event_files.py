"""Progress from TensorBoard's event files, which most training programs can write, and many do.

They are looked for in a job's run folder and in its checkpoint folder on the service's side. Of a container those are
copies: the checkpoint folder is fetched while it runs (every ten seconds at most, when it has changed), the run folder
at its end; so are event files in them read. To fetch them more often would cost more than it tells.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from schedulearn.core.domain.errors import NotFound
from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.core.domain.ports import Clock
from schedulearn.core.domain.spec import Metric
from schedulearn.service.common.effort import Effort
from schedulearn.service.common.repeating import Repeating, log_fault
from schedulearn.service.progress.reports import say_dropped
from schedulearn.service.progress.tags import full_name, likeness
from schedulearn.service.progress.tensorboard.files import EventFiles
from schedulearn.service.progress.tensorboard.records import Scalar
from schedulearn.store import Point, Store

_LOG = logging.getLogger(__name__)
_EVERY = 2.0  # seconds between two looks
_AT_ONCE = 1 << 20  # bytes of one job that are read in one look
_AT_THE_END = 1 << 24  # bytes that are read when it has ended
_EFFORT = 0.25  # seconds of the processor for the files of one job in one look; the rest is read at the next
_LAST_EFFORT = 2.0  # when it has ended: there is no next look
_TOGETHER = 5000  # scalars among which the metric is looked for
_MOST_NAMES = 20  # figures beside the metric that are kept of a job
_AHEAD = 86_400.0  # seconds: a later time than that from now on is no time

Folders = Callable[[JobId], Sequence[Path]]
Found = list[tuple[str, Scalar]]


@dataclass(slots=True)
class _Watched:
    """One attempt of a job."""

    metric: str
    since: float  # when the job was submitted
    files: list[EventFiles]
    workers: set[WorkerId] = field(default_factory=set)  # that run
    chosen: str | None = None  # the tag that is the metric; stays what it is
    names: set[str] = field(default_factory=set)  # of other figures
    points: list[Point] = field(default_factory=list)  # that are not stored yet


class EventFileWatcher(Repeating):
    """Reads the event files of running jobs as they grow."""

    def __init__(self, store: Store, folders: Folders, clock: Clock) -> None:
        super().__init__("event files", _EVERY, "event files could not be read")
        self._store, self._folders, self._clock = store, folders, clock
        self._watched: dict[JobId, _Watched] = {}
        self._ended: dict[WorkerId, _Watched] = {}  # by the last worker: those of which not all is stored
        self._lock = threading.Lock()  # also keeps one look at a time

    def watch(self, worker: WorkerId, metric: Metric) -> None:
        with self._lock:
            watched = self._watched.get(worker.job)
            if watched is None:
                row = self._store.job(worker.job)
                since = row.job.submitted_at if row else 0.0
                files = [EventFiles(folder, since) for folder in self._folders(worker.job)]
                watched = self._watched[worker.job] = _Watched(metric.name, since, files)
            watched.workers.add(worker)

    def finish(self, worker: WorkerId) -> bool:
        """The worker has ended; with the last one what is left is read, and no more is looked for.

        Whether all of it is stored; if not, that is tried again.
        """
        with self._lock:
            watched = self._watched.get(worker.job)
            if watched:
                watched.workers.discard(worker)
                if not watched.workers:
                    self._ended[worker] = self._watched.pop(worker.job)
            self._conclude(worker)
            return worker not in self._ended

    def _conclude(self, worker: WorkerId) -> None:
        if (watched := self._ended.get(worker)) and self._look(worker, watched, _AT_THE_END, Effort(_LAST_EFFORT)):
            del self._ended[worker]

    def look(self) -> None:
        """See what is new in the files of all jobs."""
        for job in list(self._watched):
            with self._lock:
                if watched := self._watched.get(job):
                    self._look(min(watched.workers), watched, _AT_ONCE, Effort(_EFFORT))
        for worker in list(self._ended):
            with self._lock:
                self._conclude(worker)

    def _look(self, worker: WorkerId, watched: _Watched, most: int, effort: Effort) -> bool:
        """Whether all that was found is stored. What is not read now is read at the next look, or not at all."""
        try:
            self._store_points(worker, watched)  # before more is read: they must not pile up while the store is away
            pieces = chain.from_iterable(files.look(most) for files in watched.files)
            while not effort.spent and (found := _some_of(pieces)):
                watched.points += self._points(watched, found)
            self._store_points(worker, watched)
        except NotFound:
            pass  # the job was deleted meanwhile
        except Exception:
            log_fault(_LOG, "event files could not be read")
            return not watched.points
        return True

    def _store_points(self, worker: WorkerId, watched: _Watched) -> None:
        if watched.points:
            points = sorted(watched.points, key=lambda point: point.at)
            taken = self._store.add_points(worker.job, worker.attempt, 0, "files", points)
            watched.points = []
            say_dropped(self._store, worker.job, taken, self._clock.now())

    def _points(self, watched: _Watched, found: Found) -> list[Point]:
        latest = self._clock.now() + _AHEAD
        own = [(folder, one) for folder, one in found if watched.since <= one.at <= latest]
        self._choose(watched, own)
        return [point for folder, one in own if (point := self._point(watched, folder, one))]

    def _choose(self, watched: _Watched, found: Found) -> None:
        """Of all tags that mean the metric the best; from then on this one alone, so that two do not get mixed up."""
        if watched.chosen is not None:
            return
        fits = {
            (fit, one.tag) for folder, one in found if (fit := likeness(watched.metric, one.tag, folder)) is not None
        }
        if fits:
            watched.chosen = min(fits)[1]

    def _point(self, watched: _Watched, folder: str, one: Scalar) -> Point | None:
        if one.tag == watched.chosen and likeness(watched.metric, one.tag, folder) is not None:
            return Point(0, one.at, one.step, watched.metric, one.value)
        name = full_name(one.tag, folder)
        if name == watched.metric or (name not in watched.names and len(watched.names) >= _MOST_NAMES):
            return None
        watched.names.add(name)
        return Point(0, one.at, one.step, name, one.value)


def _some_of(pieces: Iterator[Found]) -> Found:
    found: Found = []
    for piece in pieces:
        found += piece
        if len(found) >= _TOGETHER:
            break
    return found
