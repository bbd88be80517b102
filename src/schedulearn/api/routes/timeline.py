"""Who ran where and when."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query

from schedulearn.api.body.spec import iso
from schedulearn.api.common.convert import span_out
from schedulearn.api.common.deps import Gate
from schedulearn.api.common.schemas import TimelineOut
from schedulearn.core.domain.errors import InvalidSpec

router = APIRouter(tags=["service"])
_USUAL = 3600.0  # seconds that are looked back
_LAST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


@router.get("/timeline")
def timeline(
    gateway: Gate,
    since: Annotated[datetime | None, Query(description="an ISO 8601 time; an hour before `until`")] = None,
    until: Annotated[datetime | None, Query(description="an ISO 8601 time; now")] = None,
    limit: Annotated[int, Query(ge=0, le=10_000)] = 2000,
) -> TimelineOut:
    """Every worker that ran at some time between two moments, with its node; of more than `limit` the newest."""
    now = gateway.now()
    end = now if until is None else _seconds(until)
    begin = max(0.0, end - _USUAL) if since is None else _seconds(since)
    if begin >= end:
        raise InvalidSpec("since", f"{iso(begin)} is not before {iso(end)}", "a time before `until`")
    found = gateway.timeline(begin, end, limit)
    return TimelineOut(
        at=iso(now),
        since=iso(begin),
        until=iso(end),
        first_at=None if found.first_at is None else iso(found.first_at),
        spans=[span_out(span) for span in found.spans],
        total=found.total,
    )


def _seconds(at: datetime) -> float:
    """Since the epoch; what cannot be written as a date again is moved to the nearest that can."""
    return min(max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()), _LAST)
