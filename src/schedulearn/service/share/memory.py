"""What a machine's share loop keeps for its next life: plain JSON."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from schedulearn.core.domain.ids import JobId

Kept = Mapping[str, Any]


class Limit(NamedTuple):
    """What the stage lets a job use."""

    arrived_at: float  # of the container that it was meant for
    cores: float


def kept(stage: str, memory: Mapping[str, Any], limits: Mapping[JobId, Limit], problem: str) -> Kept | None:
    """None: there is nothing to keep."""
    if not memory and not limits and not problem:
        return None
    told = {str(job): list(limit) for job, limit in limits.items()}
    return {"stage": stage, "memory": memory, "limits": told, "problem": problem}


def limits_in(saved: Kept | None) -> dict[JobId, Limit]:
    return {JobId(int(job)): Limit(*limit) for job, limit in (saved or {}).get("limits", {}).items()}


def gist(saved: Kept | None) -> Kept | None:
    """All but the times and measurements that the stage remembers: those differ at every look."""
    return {**saved, "memory": _without_floats(saved["memory"])} if saved else None


def _without_floats(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {name: _without_floats(value) for name, value in found.items() if not isinstance(value, float)}
    return found
