"""What a job asks for, reduced to what decides whether it fits. Jobs of one shape fit or do not fit alike."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from schedulearn.core.domain.node import Node
from schedulearn.core.domain.resources import CPUS, GPUS, MEMORY, Resources
from schedulearn.core.domain.spec import JobSpec, Launcher, WorkerResources, Workers


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
    container: bool  # it can only run in a container
    own_image: bool  # it names the image itself
    one_node: bool  # its workers must all be on one node
    least_cores: int  # whole ones that its only worker can be given; 0: they are never counted (GPUs, several workers)

    @classmethod
    def of(cls, spec: JobSpec) -> "Shape":
        container = bool(spec.image or spec.setup or spec.mounts)
        one_node = spec.launcher is Launcher.HOROVOD
        return _shape(spec.resources, spec.workers, container, bool(spec.image), one_node)

    def suits(self, node: Node) -> bool:
        """Whether the node can run such workers at all, however much of it is free."""
        if node.executor == "docker":
            return self.own_image or bool(node.default_image)
        return not self.container

    @property
    def memory(self) -> "Shape":
        """What a suspended job keeps."""
        return _memory(self)

    @property
    def rest(self) -> "Shape":
        """What a suspended job leaves to others: all but its memory."""
        return self if self.plain or MEMORY not in self.per_worker else _rest(self)

    def with_cores(self, cores: int) -> "Shape":
        """What it needs where whole cores are given out and it has so many."""
        return _with_cores(self, cores)

    def only_cores(self, cores: float) -> "Shape":
        """So many cores of a node, and nothing else."""
        return _only_cores(self, cores)

    def suspended(self, workers: int) -> "Shape":
        """What one suspended job needs to go on. It fits in one place only, so it shares this shape with nobody."""
        return replace(self.rest, workers=Workers(workers, workers, workers))


@lru_cache(maxsize=65536)
def _shape(resources: WorkerResources, workers: Workers, container: bool, own_image: bool, one_node: bool) -> Shape:
    leased, gpus = resources.leased, resources.gpus
    pool = GPUS if gpus else CPUS
    plain = gpus > 0 and resources.gpu_type is None and set(leased) == {GPUS} and not container and not one_node
    cores = max(1, math.ceil(resources.cpus_min)) if not gpus and workers.max == 1 else 0
    return Shape(
        leased, resources.gpu_type, workers, gpus, pool, leased[pool], plain, container, own_image, one_node, cores
    )


@lru_cache(maxsize=4096)
def _memory(shape: Shape) -> Shape:
    kept = Resources({MEMORY: shape.per_worker[MEMORY]})
    return replace(shape, per_worker=kept, gpu_type=None, gpus=0, slots=0.0, plain=False)


@lru_cache(maxsize=4096)
def _rest(shape: Shape) -> Shape:
    return replace(shape, per_worker=Resources({n: a for n, a in shape.per_worker.items() if n != MEMORY}))


@lru_cache(maxsize=4096)
def _with_cores(shape: Shape, cores: int) -> Shape:
    return replace(shape, per_worker=Resources({**shape.per_worker, CPUS: cores}), slots=float(cores))


@lru_cache(maxsize=4096)
def _only_cores(shape: Shape, cores: float) -> Shape:
    return replace(shape, per_worker=Resources({CPUS: cores}), slots=cores)
