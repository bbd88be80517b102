"""Everything that happens, by serial number: as a page, or live as server-sent events."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from schedulearn.api.convert import event_out
from schedulearn.api.deps import Gate, JobNumber
from schedulearn.api.fields import MAX_ID
from schedulearn.api.schemas import EventPage
from schedulearn.domain.ids import JobId
from schedulearn.service.gateway import Gateway
from schedulearn.service.views import StoredEvent

router = APIRouter(tags=["events"])
_POLL = 0.2  # seconds between two looks while somebody listens
_KEEP_ALIVE = 15.0  # seconds of silence after which a comment is sent, so that proxies keep the connection
_BATCH = 500
After = Annotated[int | None, Query(ge=0, le=MAX_ID, description="only events with a greater serial number")]
Limit = Annotated[int, Query(ge=1, le=10_000)]


@router.get("/jobs/{job}/events")
def job_events(job: JobNumber, gateway: Gate, after: After = None, limit: Limit = 1000) -> EventPage:
    """The story of one job."""
    return EventPage(events=[event_out(event) for event in gateway.job_events(JobId(job), after or 0, limit)])


@router.get("/events", response_model=EventPage)
async def events(
    gateway: Gate,
    request: Request,
    after: After = None,
    job: Annotated[int | None, Query(ge=1, le=MAX_ID, description="only of this job")] = None,
    follow: bool = True,
    limit: Limit = 1000,
    last_event_id: Annotated[str | None, Header(max_length=40)] = None,
) -> Any:
    """A stream of server-sent events; with `follow=false` one page as JSON.

    A stream begins after `Last-Event-ID` or `after`, else with what happens from now on; a page begins with the oldest.
    """
    if last_event_id and last_event_id.isascii() and last_event_id.isdigit():
        after = min(int(last_event_id), MAX_ID)
    of = None if job is None else JobId(job)
    if not follow:
        found = await run_in_threadpool(gateway.events, after or 0, of, limit)
        return EventPage(events=[event_out(event) for event in found])
    if after is None:
        after = await run_in_threadpool(gateway.last_event)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_stream(gateway, request, after, of), media_type="text/event-stream", headers=headers)


async def _stream(gateway: Gateway, request: Request, after: int, job: JobId | None) -> AsyncIterator[str]:
    yield ": connected\n\n"  # so that a client knows at once that it is heard
    spoke = time.monotonic()
    while not gateway.closing:
        found = await run_in_threadpool(gateway.events, after, job, _BATCH)
        if found:
            yield "".join(_message(event) for event in found)
            after, spoke = found[-1].serial, time.monotonic()
            continue
        if await request.is_disconnected():
            return
        if time.monotonic() - spoke > _KEEP_ALIVE:
            yield ": still here\n\n"
            spoke = time.monotonic()
        await asyncio.sleep(_POLL)


def _message(event: StoredEvent) -> str:
    out = event_out(event)
    return f"id: {out.serial}\nevent: {out.kind}\ndata: {out.model_dump_json()}\n\n"
