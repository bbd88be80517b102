"""What the workers of a job use."""

from datetime import datetime
from typing import Annotated

from fastapi import Query

from schedulearn.api.body.fields import MOST_CURVES
from schedulearn.api.common.answers import usage_out
from schedulearn.api.common.deps import Gate, JobNumber, Offset, seconds
from schedulearn.api.common.router import Router
from schedulearn.core.domain.ids import JobId
from schedulearn.wire import types

router = Router(tags=["jobs"])


@router.get("/jobs/{job}/usage")
def usage(
    job: JobNumber,
    gateway: Gate,
    attempt: Annotated[int | None, Query(ge=1, le=2**31)] = None,
    since: Annotated[datetime | None, Query(description="an ISO 8601 time; earlier points are left out")] = None,
    max_points: Annotated[int, Query(ge=1, le=2000)] = 500,
    limit: Annotated[int, Query(ge=0, le=MOST_CURVES, description="workers in one answer")] = 100,
    offset: Offset = 0,
) -> types.UsagePage:
    """CPU, memory, disk and network traffic, energy and limits over time; of the newest attempt unless one is named.

    An answer has at most 50,000 points: of many workers there are fewer of each.
    """
    found, workers, total = gateway.usage(JobId(job), attempt, seconds(since, None), max_points, limit, offset)
    return types.UsagePage(attempt=str(found), workers=[usage_out(worker) for worker in workers], total=total)
