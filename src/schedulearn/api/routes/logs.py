"""What a job has printed: as a whole, its end, or live."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Annotated

from fastapi import Query
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from schedulearn.api.body.fields import MAX_ID
from schedulearn.api.common.deps import Gate, JobNumber, Streaming
from schedulearn.api.common.output_watch import output_watch_of
from schedulearn.api.common.router import Router
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.states import FINISHED
from schedulearn.service.gateway.gateway import Gateway
from schedulearn.service.gateway.views import LogPlace

router = Router(tags=["jobs"])
_CHUNK = 1 << 18  # bytes read at once


@router.get("/jobs/{job}/logs", response_class=StreamingResponse, responses={200: {"content": {"text/plain": {}}}})
async def logs(
    job: JobNumber,
    gateway: Gate,
    streaming: Streaming,
    tail: Annotated[int | None, Query(ge=0, le=1_000_000, description="only this many of the last lines")] = None,
    offset: Annotated[int | None, Query(ge=0, le=MAX_ID, description="from this byte on")] = None,
    worker: Annotated[int, Query(ge=0, le=100_000)] = 0,
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000, description="the newest by default")] = None,
    follow: bool = False,
) -> StreamingResponse:
    """The output of one worker, byte for byte. `X-Next-Offset` says where to read on.

    `follow` keeps sending what is added, goes on with the next attempt unless one was named, and ends with the job.
    """
    if follow:
        streaming()
    place = await run_in_threadpool(gateway.log_place, JobId(job), attempt, worker)
    if tail is None:
        first, place = b"", replace(place, offset=offset)
    else:
        chunk = await run_in_threadpool(gateway.log_tail, place, tail)
        first, place = chunk.data, replace(place, offset=chunk.next_offset)
    if follow:
        return _answer(_follow(gateway, first, place, attempt is None), place)
    end = (await run_in_threadpool(gateway.log_read, place, 0)).end
    body = _all(gateway, first, place, end) if tail is None else iter([first])
    return _answer(body, place, end if tail is None else place.offset)


def _answer(body: Iterator[bytes] | AsyncIterator[bytes], place: LogPlace, end: int | None = None) -> StreamingResponse:
    headers = {"X-Attempt": str(place.attempt), "X-Content-Type-Options": "nosniff"}
    if end is not None:
        headers["X-Next-Offset"] = str(end)
    return StreamingResponse(body, media_type="text/plain", headers=headers)


def _all(gateway: Gateway, first: bytes, place: LogPlace, end: int) -> Iterator[bytes]:
    """Up to where the output ended when it was asked for."""
    yield first
    while (place.offset or 0) < end:
        chunk = gateway.log_read(place, _CHUNK)
        data = chunk.data[: max(0, end - chunk.offset)]
        if not data:
            return
        yield data
        place = replace(place, offset=chunk.next_offset)


async def _follow(gateway: Gateway, first: bytes, place: LogPlace, all_attempts: bool) -> AsyncIterator[bytes]:
    if first:
        yield first
    while not gateway.closing:
        # The state is asked for before the output is read: what was printed before the end is then surely sent.
        pulse = await run_in_threadpool(gateway.pulse, place.job)
        while (chunk := await run_in_threadpool(gateway.log_read, place, _CHUNK)).data:
            yield chunk.data
            place = replace(place, offset=chunk.next_offset)
        if pulse is None:
            return
        newest = place.attempt == pulse.attempt.number
        if all_attempts and not newest:
            place = replace(place, attempt=place.attempt + 1, offset=None)
            continue
        ended = pulse.state in FINISHED if all_attempts else not (newest and pulse.placed)
        if ended:
            return
        await output_watch_of(gateway).more(place, pulse)
