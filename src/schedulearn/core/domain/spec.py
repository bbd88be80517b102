"""A job as its user asked for it. Checked where it comes in (the API); here it is only what was agreed."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from enum import Enum, StrEnum
from typing import Any, get_args, get_type_hints

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.resources import CPUS, GPUS, MEMORY, Resources


class Launcher(StrEnum):
    COMMAND = "command"
    TORCHRUN = "torchrun"
    HOROVOD = "horovod"
    ELASTIC = "elastic"


class Preemptible(StrEnum):
    AUTO = "auto"  # once a checkpoint of it was seen
    YES = "true"
    NO = "false"


_HOT = frozenset({Launcher.HOROVOD, Launcher.ELASTIC})


@dataclass(frozen=True, slots=True)
class Workers:
    """How many workers a job may have: 0 while it waits, else min..max; `want` is what it asks for."""

    min: int = 1
    want: int = 1
    max: int = 1

    def wanting(self, number: int) -> "Workers":
        """The same with another number asked for: no more than that, and no fewer than before. A fixed one stays so."""
        return Workers(number if self.min == self.max else min(self.min, number), number, number)

    def __str__(self) -> str:
        wanted = f", {self.want} wanted" if self.want != self.min else ""
        return f"{self.min}..{self.max}{wanted}" if self.min != self.max else str(self.min)


@dataclass(frozen=True, slots=True)
class Batches:
    """The batch sizes, of all workers together, that a scheduler may choose for a job."""

    min: int
    max: int

    def __str__(self) -> str:
        return f"{self.min}..{self.max}"


@dataclass(frozen=True, slots=True)
class WorkerResources:
    """What each worker needs."""

    gpus: int = 0
    gpu_type: str | None = None
    cpus_min: float = 1.0  # guaranteed: this is what is leased
    cpus_max: float = 1.0  # the limit may be raised up to this
    memory: int | None = None  # bytes, leased and limited; None: neither
    shm: int | None = None  # bytes

    @property
    def leased(self) -> Resources:
        """What a lease takes from a node."""
        return Resources({GPUS: self.gpus, CPUS: self.cpus_min, MEMORY: self.memory or 0})


@dataclass(frozen=True, slots=True)
class Metric:
    """The number that tells how well the training goes."""

    name: str = "loss"
    goal: str = "min"  # min | max
    pattern: str | None = None  # a regular expression with one group; None: the default pattern


YIELD, STOP = "yield", "stop"  # what follows when a target is reached: others go first, or the job ends


@dataclass(frozen=True, slots=True)
class Target:
    """What to do once the metric is good enough."""

    value: float
    then: str = YIELD


@dataclass(frozen=True, slots=True)
class JobSpec:
    name: str
    command: str | tuple[str, ...]  # a text is run by the shell, a list as it is
    image: str | None = None
    setup: tuple[str, ...] = ()
    workdir: str = "."  # where it was submitted from: only shown, the snapshot is what runs
    snapshot: str | None = None  # content hash of the workdir's snapshot; None: an empty folder
    mounts: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    launcher: Launcher = Launcher.COMMAND
    workers: Workers = Workers()
    resources: WorkerResources = WorkerResources()
    steps: int | None = None
    batch: Batches | None = None  # None: the batch size is the program's own affair
    priority: int = 50
    deadline: float | None = None  # seconds since the epoch
    time_limit: float | None = None  # seconds of running, over all attempts
    max_restarts: int = 0
    grace: float = 30.0  # seconds between SIGTERM and SIGKILL
    preemptible: Preemptible = Preemptible.AUTO
    depends_on: tuple[JobId, ...] = ()
    metric: Metric = Metric()
    target: Target | None = None
    notify: tuple[str, ...] = ()

    @property
    def resizes_live(self) -> bool:
        """Whether its workers may come and go while the others run on; else it is resized by stop and start."""
        return self.launcher in _HOT


def spec_to_dict(spec: JobSpec) -> dict[str, Any]:
    """For the store: plain JSON values."""
    return asdict(spec)


def spec_from_dict(data: Mapping[str, Any]) -> JobSpec:
    """The inverse of `spec_to_dict`."""
    return JobSpec(**{name: _read(_TYPES[name], value) for name, value in data.items() if name not in _GONE})


def _read(types: tuple[Any, ...], value: Any) -> Any:
    """A value of plain JSON as one of these types."""
    if value is None or (isinstance(value, str) and str in types):
        return value
    if isinstance(value, list):
        return tuple(value)
    for one in types:
        if is_dataclass(one) and isinstance(one, type):
            return one(**value)
        if isinstance(one, type) and issubclass(one, Enum):
            return one(value)
    return value


_GONE = frozenset({"batch_sizes"})  # fields that jobs were stored with, and that never had an effect
# What each field may be: the type that is declared, or those of a union.
_TYPES = {name: (hint, *get_args(hint)) for name, hint in get_type_hints(JobSpec).items()}
