"""Is the service there? The one route that answers without a token."""

import asyncio

from fastapi import APIRouter

from schedulearn.api.body.spec import iso
from schedulearn.api.common.deps import Gate
from schedulearn.api.common.schemas import HealthOut
from schedulearn.service.gateway.vitals import SOON

router = APIRouter(tags=["service"])


@router.get("/health")
async def health(gateway: Gate) -> HealthOut:
    """Answers at once, also while the database does not."""
    # Not in one of the threads for requests: all of them may be waiting for the database.
    await asyncio.wait([asyncio.wrap_future(gateway.vitals.look())], timeout=SOON)
    state = gateway.known_health()
    return HealthOut(
        version=state.version,
        roles=list(state.roles),
        scheduler="running" if state.scheduler_runs else "absent",
        database="ok" if state.lost_since is None else "not answering",
        database_lost_since=None if state.lost_since is None else iso(state.lost_since),
        time=iso(state.at),
    )
