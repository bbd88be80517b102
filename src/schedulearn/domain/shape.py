"""What a job asks for, reduced to what decides whether it fits. Jobs of one shape fit or do not fit alike."""

from dataclasses import dataclass
from functools import lru_cache

from schedulearn.domain.resources import CPUS, GPUS, Resources
from schedulearn.domain.spec import JobSpec, WorkerResources, Workers


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """Made once for each combination, so that two jobs of one shape share the very same object."""

    per_worker: Resources  # what a lease for one worker takes
    gpu_type: str | None
    workers: Workers
    gpus: int  # of one worker
    pool: str  # whose slots it takes: GPUs, or cores if it asks for no GPU
    slots: float  # of that pool, for one worker
    plain: bool  # it asks for GPUs of any type and for nothing else

    @classmethod
    def of(cls, spec: JobSpec) -> "Shape":
        return _shape(spec.resources, spec.workers)


@lru_cache(maxsize=65536)
def _shape(resources: WorkerResources, workers: Workers) -> Shape:
    leased, gpus = resources.leased, resources.gpus
    pool = GPUS if gpus else CPUS
    plain = gpus > 0 and resources.gpu_type is None and set(leased) == {GPUS}
    return Shape(leased, resources.gpu_type, workers, gpus, pool, leased[pool], plain)
