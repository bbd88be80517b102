"""Everything at a glance: what the page and `top` show, gathered at once and shared by all viewers."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from schedulearn.core.control.explain import Explanation
from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.core.domain.job import Lease
from schedulearn.core.domain.states import FINISHED, JobState
from schedulearn.service.gateway.views import NodeView
from schedulearn.store import JobRow, Store, WorkerUsage

_LOG = logging.getLogger(__name__)
KEEP = 0.5  # seconds for which one look is good enough for all
_KEEP_REASONS = 3.0  # and the reasons of jobs that wait, if nothing happens
_AT_EASE = 10.0  # times as long as it took to find them: behind a long queue they are looked for less often
_QUICK = 0.2  # seconds: if they took less than that the last time, they are waited for
_PATIENCE = 1.0  # seconds, at most
_MOST_TEXT = 2_000_000  # characters of the specs of those that run: each viewer gets them every second
_MOST_RUNNING, _MOST_WAITING, _MOST_FINISHED = 200, 20, 10
_WITH_WORKERS = frozenset(JobState) - FINISHED - {JobState.QUEUED}
Waiting = Callable[[int], list[tuple[JobId, Explanation]]]


@dataclass(frozen=True, slots=True)
class Overview:
    """The cluster at one moment. Lists are cut; `counts` are exact."""

    counts: Mapping[JobState, int]
    last_event: int
    nodes: Sequence[NodeView]
    holders: Sequence[tuple[Lease, WorkerUsage | None]]  # what is held, and how much of it is used
    running: Sequence[JobRow]  # and starting, paused, stopping
    waiting: Sequence[tuple[JobRow, Explanation]]  # the head of the queue first
    finished: Sequence[JobRow]  # the newest first


class OverviewCache:
    """Looks when asked, but not again for a while: ten viewers cost as much as one."""

    def __init__(self, store: Store, nodes: Callable[[], list[NodeView]], waiting: Waiting) -> None:
        self._store, self._nodes = store, nodes
        self._lock = threading.Lock()
        self._last: tuple[float, Overview] | None = None
        self._reasons = _Reasons(waiting)

    def look(self) -> Overview:
        with self._lock:
            if self._last is None or time.monotonic() - self._last[0] > KEEP:
                self._last = time.monotonic(), self._gather()
            return self._last[1]

    def _gather(self) -> Overview:
        serial = self._store.last_event_serial()
        usage = {used.worker: used for used in self._store.usage_now()}
        running, _ = self._store.list_jobs(_WITH_WORKERS, limit=_MOST_RUNNING, most_text=_MOST_TEXT)
        finished, _ = self._store.list_jobs(FINISHED, sort="finished_at", descending=True, limit=_MOST_FINISHED)
        return Overview(
            self._store.count_by_state(),
            serial,
            self._nodes(),
            self._holders(usage),
            running,
            self._queue(serial),
            finished,
        )

    def _holders(self, usage: Mapping[WorkerId, WorkerUsage]) -> list[tuple[Lease, WorkerUsage | None]]:
        return [(lease, usage.get(lease.worker)) for lease in self._store.leases()]

    def _queue(self, serial: int) -> list[tuple[JobRow, Explanation]]:
        rows = ((self._store.job(job), why) for job, why in self._reasons.known(serial))
        return [(row, why) for row, why in rows if row and row.job.state is JobState.QUEUED]


class _Reasons:
    """Why the first jobs of the queue wait. Found in a thread of their own, one look at a time.

    Behind a long queue that takes a while: then the caller is told what was found before, a moment ago.
    """

    def __init__(self, find: Waiting) -> None:
        self._find = find
        self._known: list[tuple[JobId, Explanation]] = []
        self._of = -1  # up to which event
        self._at = self._cost = 0.0
        self._looking: threading.Thread | None = None

    def known(self, serial: int) -> list[tuple[JobId, Explanation]]:
        """Called by one thread at a time."""
        if self._looking is None or not self._looking.is_alive():
            age, ease = time.monotonic() - self._at, _AT_EASE * self._cost
            if age > ease and (serial != self._of or age > _KEEP_REASONS):
                self._looking = threading.Thread(target=self._look, args=(serial,), name="reasons", daemon=True)
                self._looking.start()
        if self._looking is not None and self._cost < _QUICK:
            self._looking.join(_PATIENCE)
            if self._looking.is_alive():  # it is known already that it is not quick
                self._cost = max(self._cost, _QUICK)
        return self._known

    def _look(self, serial: int) -> None:
        began = time.monotonic()
        try:
            self._known = self._find(_MOST_WAITING)
        except Exception as error:  # a moment later it is tried again
            _LOG.warning("why jobs wait could not be found out: %s", error)
        self._of, self._at = serial, time.monotonic()
        self._cost = self._at - began
