"""What workers use, as the API answers it."""

from collections.abc import Sequence
from itertools import pairwise

from pydantic import BaseModel

from schedulearn.api.body.spec import iso
from schedulearn.core.domain.usage import Usage, cores_used
from schedulearn.service.gateway.views import WorkerUsage


class LookOut(BaseModel):
    """One look at a worker. Counters are since its start; null: its machine cannot tell."""

    at: str
    cpus: float | None  # cores in use since the look before
    cpu_seconds: float
    memory: int | None
    read_bytes: int | None
    written_bytes: int | None
    received_bytes: int | None
    sent_bytes: int | None
    energy: float | None  # joules
    cpus_limit: float | None  # null: none
    weight: int | None
    memory_limit: int | None


class WorkerUsageOut(BaseModel):
    worker: str
    memory_peak: int | None
    latest: LookOut
    points: list[LookOut]  # thinned; `cpus` is the mean from one to the next


class UsageOut(BaseModel):
    attempt: str
    workers: list[WorkerUsageOut]
    total: int  # workers that there are


def worker_usage_out(used: WorkerUsage) -> WorkerUsageOut:
    return WorkerUsageOut(
        worker=str(used.worker),
        memory_peak=used.memory_peak,
        latest=_look(used.latest, used.cpus),
        points=_points(used.points),
    )


def _points(looks: Sequence[Usage]) -> list[LookOut]:
    rates = [None, *(cores_used(*pair) for pair in pairwise(looks))]
    return [_look(look, rate) for look, rate in zip(looks, rates, strict=False)]


def _look(look: Usage, cpus: float | None) -> LookOut:
    return LookOut(
        at=iso(look.at),
        cpus=None if cpus is None else round(cpus, 4),
        cpu_seconds=round(look.cpu_seconds, 6),
        memory=look.memory,
        read_bytes=look.read_bytes,
        written_bytes=look.written_bytes,
        received_bytes=look.received_bytes,
        sent_bytes=look.sent_bytes,
        energy=None if look.energy is None else round(look.energy, 3),
        cpus_limit=look.limits.cpus,
        weight=look.limits.weight,
        memory_limit=look.limits.memory,
    )
