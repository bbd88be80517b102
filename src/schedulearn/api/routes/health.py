"""Is the service there? The one route that answers without a token."""

from fastapi import APIRouter

from schedulearn.api.deps import Gate
from schedulearn.api.schemas import HealthOut
from schedulearn.api.spec import iso

router = APIRouter(tags=["service"])


@router.get("/health")
def health(gateway: Gate) -> HealthOut:
    state = gateway.health()
    return HealthOut(
        version=state.version,
        roles=list(state.roles),
        scheduler="running" if state.scheduler_runs else "absent",
        time=iso(state.at),
    )
