"""The cluster at a glance, and over time: one call each for what the page shows."""

from datetime import datetime
from typing import Annotated

from fastapi import Query

from schedulearn.api.common.answers import (
    answer,
    explanation_out,
    holder_out,
    job_out,
    node_out,
    span_out,
)
from schedulearn.api.common.deps import Gate, Person, seconds
from schedulearn.api.common.router import Router
from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.wire import types
from schedulearn.wire.words import iso

router = Router(tags=["service"])
_USUAL = 3600.0  # seconds that are looked back


@router.get("/overview")
def overview(caller: Person, gateway: Gate) -> types.Overview:
    """Nodes and which job holds what, running jobs, the head of the queue with reasons, what has just ended.

    At most half a second old: all callers share one look.
    """
    seen, policy, now = gateway.overview(), gateway.policy(), gateway.now()
    return types.Overview(
        at=iso(now),
        scheduler="running" if gateway.health().scheduler_runs else "absent",
        policy=types.PolicyInForce(preset=policy["preset"], stages=policy["stages"], fault=policy["fault"]),
        counts={state.value: count for state, count in seen.counts.items()},
        last_event=seen.last_event,
        nodes=[node_out(view) for view in seen.nodes],
        holders=[holder_out(lease, used) for lease, used in seen.holders],
        running=[job_out(row, caller, now) for row in seen.running],
        waiting=[
            types.Waiting(job=job_out(row, caller, now), why=explanation_out(row, why)) for row, why in seen.waiting
        ],
        finished=[job_out(row, caller, now) for row in seen.finished],
    )


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
