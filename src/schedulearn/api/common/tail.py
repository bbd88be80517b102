"""Events as they happen: read from the store once, for however many listen."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import NamedTuple

from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool

from schedulearn.api.common.answers import event_out
from schedulearn.api.common.deps import one_for_each_gateway
from schedulearn.core.domain.ids import JobId
from schedulearn.service.gateway.gateway import Gateway

POLL = 0.2  # seconds between two looks while there are listeners
_KEEP_ALIVE = 15.0  # seconds of silence after which a comment is sent, so that proxies keep the connection
_AGAIN = 1.0  # seconds before the store is asked again after it could not answer
_BATCH = 500
_KEPT = 2000  # of the newest events: a listener further behind reads the store itself
log = logging.getLogger(__name__)


class _Message(NamedTuple):
    serial: int
    job: JobId | None
    text: str  # as it is sent


class Tail:
    """The newest events of one service. It reads only while there are listeners."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._listeners = 0
        self._reading: asyncio.Task[None] | None = None
        self._recent: deque[_Message] = deque()
        self._ready = False  # until the reader has looked for the first time, all listeners read the store
        self._from = self._to = 0  # every event after the first, up to the second, is among the recent ones
        self._news = asyncio.Event()  # another one each time

    async def follow(self, after: int, job: JobId | None) -> AsyncIterator[str]:
        """Server-sent events with greater serial numbers: each once, in order, until the service stops."""
        yield ": connected\n\n"  # so that a client knows at once that it is heard
        await self._join()
        try:
            spoke = time.monotonic()
            while not self._gateway.closing:
                news, seen = self._news, self._to
                found = await self._since(after, job)
                after = max(after, found[-1].serial if found else seen)
                if found:
                    yield "".join(message.text for message in found)
                    spoke = time.monotonic()
                    continue
                with suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), max(0.0, spoke + _KEEP_ALIVE - time.monotonic()))
                    continue
                yield ": still here\n\n"
                spoke = time.monotonic()
        finally:
            self._leave()

    async def _join(self) -> None:
        self._listeners += 1
        if self._listeners > 1:
            return
        self._ready = False
        self._recent.clear()
        self._from = self._to = 0
        self._news = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    def _leave(self) -> None:
        self._listeners -= 1
        if not self._listeners and self._reading:
            self._reading.cancel()
            self._reading = None

    async def _since(self, after: int, job: JobId | None) -> list[_Message]:
        """The next messages after this one; none if everything up to the newest that was read is known."""
        if after < self._from or not self._ready:
            return await run_in_threadpool(self._ask, after, job)
        fresh = []
        for message in reversed(self._recent):
            if message.serial <= after:
                break
            if job is None or message.job == job:
                fresh.append(message)
        return fresh[::-1]

    async def _read(self) -> None:
        """Look for more again and again, and wake the listeners that wait for it."""
        while not self._gateway.closing:
            try:
                if not self._ready:
                    self._from = self._to = await run_in_threadpool(self._gateway.last_event)
                    self._ready = True
                    self._wake()  # what came between a listener's look and this one would be missed
                found = await run_in_threadpool(self._ask, self._to, None)
            except Exception:
                log.exception("the events could not be read")
                await asyncio.sleep(_AGAIN)
                continue
            self._add(found)
            if len(found) < _BATCH:
                await asyncio.sleep(POLL)
        self._wake()

    def _add(self, found: list[_Message]) -> None:
        if not found:
            return
        self._recent += found
        self._to = found[-1].serial
        while len(self._recent) > _KEPT:
            self._from = self._recent.popleft().serial
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _ask(self, after: int, job: JobId | None) -> list[_Message]:
        found = []
        for event in self._gateway.events(after, job, _BATCH):
            out = event_out(event)
            data = to_json(out, inf_nan_mode="null").decode()
            text = f"id: {event.serial}\nevent: {out['kind']}\ndata: {data}\n\n"
            found.append(_Message(event.serial, event.event.job, text))
        return found


tail_of = one_for_each_gateway(Tail)
