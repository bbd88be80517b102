"""Is the service there? The one route that answers without a token."""

import asyncio

from schedulearn.api.common.answers import time_out
from schedulearn.api.common.deps import Gate
from schedulearn.api.common.router import Router
from schedulearn.service.gateway.vitals import SOON
from schedulearn.wire import types
from schedulearn.wire.words import iso

router = Router(tags=["service"])


@router.get("/health")
async def health(gateway: Gate) -> types.Health:
    """Answers at once, also while the database does not."""
    # Not in one of the threads for requests: all of them may be waiting for the database.
    await asyncio.wait([asyncio.wrap_future(gateway.vitals.look())], timeout=SOON)
    state = gateway.known_health()
    return types.Health(
        status="ok",
        version=state.version,
        roles=list(state.roles),
        scheduler="running" if state.scheduler_runs else "absent",
        database="ok" if state.lost_since is None else "not answering",
        database_lost_since=time_out(state.lost_since),
        time=iso(state.at),
    )
