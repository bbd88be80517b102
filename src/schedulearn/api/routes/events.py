"""Everything that happens, by serial number: as a page, or live as server-sent events."""

from typing import Annotated, Any

from fastapi import Header, Query
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from schedulearn.api.body.fields import MAX_ID
from schedulearn.api.common.answers import event_out
from schedulearn.api.common.deps import Gate, JobNumber, Streaming
from schedulearn.api.common.router import Router
from schedulearn.api.common.tail import tail_of
from schedulearn.core.domain.ids import JobId
from schedulearn.wire import types

router = Router(tags=["events"])
After = Annotated[int | None, Query(ge=0, le=MAX_ID, description="only events with a greater serial number")]
Limit = Annotated[int, Query(ge=1, le=10_000)]


@router.get("/jobs/{job}/events")
def job_events(job: JobNumber, gateway: Gate, after: After = None, limit: Limit = 1000) -> types.EventPage:
    """The story of one job."""
    return types.EventPage(events=[event_out(event) for event in gateway.job_events(JobId(job), after or 0, limit)])


@router.get("/events", response_model=types.EventPage, responses={200: {"content": {"text/event-stream": {}}}})
async def events(
    gateway: Gate,
    streaming: Streaming,
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
        return types.EventPage(events=[event_out(event) for event in found])
    streaming()
    if after is None:
        after = await run_in_threadpool(gateway.last_event)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(tail_of(gateway).follow(after, of), media_type="text/event-stream", headers=headers)
