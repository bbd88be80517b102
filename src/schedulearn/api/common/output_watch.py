"""Waiting for more output: one look at a time for all readers, however many they are."""

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool

from schedulearn.api.common.deps import one_for_each_gateway
from schedulearn.core.domain.ids import JobId
from schedulearn.service.gateway.gateway import Gateway
from schedulearn.service.gateway.views import JobPulse, LogPlace

_POLL = 0.2  # seconds between two looks
_ALL_EVERY = 2.0  # seconds after which also jobs are looked at of which the history says nothing new
_BATCH = 1000
_Worker = tuple[JobId, int, int]  # whose output it is: job, attempt, rank
log = logging.getLogger(__name__)


class _Reader(NamedTuple):
    place: LogPlace
    pulse: JobPulse


class _Seen(NamedTuple):
    pulses: dict[JobId, JobPulse | None]  # of jobs that may have changed
    ends: dict[_Worker, int]  # how far the output goes


class OutputWatch:
    """Looks only while a reader waits."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._waiting: dict[asyncio.Future[None], _Reader] = {}
        self._looking: asyncio.Task[None] | None = None
        self._serial = 0  # of the newest event that was seen
        self._all_at = 0.0

    async def more(self, place: LogPlace, pulse: JobPulse) -> None:
        """Returns when there is output after the place, the job is not as it was, or the service stops."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[waiting] = _Reader(place, pulse)
        if self._looking is None or self._looking.done():
            self._all_at = 0.0
            self._looking = asyncio.create_task(self._run())
        try:
            await waiting
        finally:
            self._waiting.pop(waiting, None)

    async def _run(self) -> None:
        while self._waiting and not self._gateway.closing:
            try:
                self._wake(await run_in_threadpool(self._look, list(self._waiting.values())))
            except Exception:  # each reader finds out for itself what is wrong
                log.exception("the output of jobs could not be looked at")
                self._wake_all()
            await asyncio.sleep(_POLL)
        self._wake_all()

    def _look(self, readers: Iterable[_Reader]) -> _Seen:
        """Jobs first: what was printed before an end is then surely counted."""
        jobs = {reader.place.job for reader in readers}
        if time.monotonic() - self._all_at < _ALL_EVERY:
            news = self._gateway.events(self._serial, None, _BATCH)
            jobs &= {event.event.job for event in news if event.event.job is not None}
            self._serial = news[-1].serial if news else self._serial
        else:
            self._serial, self._all_at = self._gateway.last_event(), time.monotonic()
        pulses = {job: self._gateway.pulse(job) for job in jobs}
        places = {_worker(reader.place): reader.place for reader in readers}
        return _Seen(pulses, {worker: self._gateway.log_read(place, 0).end for worker, place in places.items()})

    def _wake(self, seen: _Seen) -> None:
        for waiting, (place, pulse) in list(self._waiting.items()):
            changed = seen.pulses.get(place.job, pulse) != pulse
            if (changed or seen.ends.get(_worker(place), 0) > (place.offset or 0)) and not waiting.done():
                waiting.set_result(None)

    def _wake_all(self) -> None:
        for waiting in list(self._waiting):
            if not waiting.done():
                waiting.set_result(None)


def _worker(place: LogPlace) -> _Worker:
    return place.job, place.attempt, place.rank


output_watch_of = one_for_each_gateway(OutputWatch)
