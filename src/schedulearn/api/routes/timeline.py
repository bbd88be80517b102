"""Who ran where and when."""

from datetime import datetime
from typing import Annotated

from fastapi import Query

from schedulearn.api.common.answers import answer, span_out
from schedulearn.api.common.deps import Gate, seconds
from schedulearn.api.common.router import Router
from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.wire import types
from schedulearn.wire.words import iso

router = Router(tags=["service"])
_USUAL = 3600.0  # seconds that are looked back


@router.get("/timeline")
def timeline(
    gateway: Gate,
    since: Annotated[datetime | None, Query(description="an ISO 8601 time; an hour before `until`")] = None,
    until: Annotated[datetime | None, Query(description="an ISO 8601 time; now")] = None,
    limit: Annotated[int, Query(ge=0, le=10_000)] = 2000,
) -> types.Timeline:
    """Every worker that ran at some time between two moments, with its node; of more than `limit` the newest."""
    now = gateway.now()
    end = seconds(until, now)
    begin = seconds(since, max(0.0, end - _USUAL))
    if begin >= end:
        raise InvalidSpec("since", f"{iso(begin)} is not before {iso(end)}", "a time before `until`")
    found = gateway.timeline(begin, end, limit)
    spans = [span_out(span) for span in found.spans]
    return answer(types.Timeline, found, at=iso(now), since=iso(begin), until=iso(end), spans=spans)
