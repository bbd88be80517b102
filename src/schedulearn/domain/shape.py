"""What a job asks for, reduced to what decides whether it fits. Jobs of one shape fit or do not fit alike."""

from functools import lru_cache
from typing import NamedTuple

from schedulearn.domain.resources import Resources
from schedulearn.domain.spec import JobSpec, WorkerResources, Workers


class Shape(NamedTuple):
    per_worker: Resources  # what a lease for one worker takes
    gpu_type: str | None
    workers: Workers

    @classmethod
    def of(cls, spec: JobSpec) -> "Shape":
        return _shape(spec.resources, spec.workers)

    @property
    def gpus(self) -> int:
        """GPUs of one worker."""
        return int(self.per_worker["gpus"])


@lru_cache(maxsize=4096)
def _shape(resources: WorkerResources, workers: Workers) -> Shape:
    return Shape(resources.leased, resources.gpu_type, workers)
