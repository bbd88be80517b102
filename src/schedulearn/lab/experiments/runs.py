"""What came of one run of one policy on one seed's jobs: plain data, in the time of the published experiment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class JobRun(NamedTuple):
    serial: int
    label: str
    model: str
    arrival: float
    started: float
    ended: float
    migrations: int
    lost: float = 0.0  # seconds of work that had to be done again
    energy: float | None = None  # joules; None: nothing measured it

    @property
    def jct(self) -> float:
        return self.ended - self.arrival

    @property
    def ran(self) -> float:
        return self.ended - self.started


class Use(NamedTuple):
    """What a container uses of its machine from this moment on."""

    at: float
    serial: int
    node: str
    part: float  # of the machine
    limit: float  # likewise; inf: none


class Growth(NamedTuple):
    at: float
    serial: int
    value: float


class Stay(NamedTuple):
    """A job on a node for a while."""

    serial: int
    node: str
    start: float
    end: float


class Event(NamedTuple):
    """What a stage wrote down."""

    at: float
    serial: int | None
    kind: str
    words: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """How the run went on; kept of the first seed alone."""

    uses: Sequence[Use] = ()
    growth: Sequence[Growth] = ()
    stays: Sequence[Stay] = ()
    events: Sequence[Event] = ()


@dataclass(frozen=True, slots=True)
class Run:
    seed: int
    variant: str
    jobs: Sequence[JobRun]  # by serial number
    use: float  # of the cluster, over the makespan: 0 to 1
    server_use: float  # of the servers that ran something, while they did
    timeline: Timeline = field(default_factory=Timeline)
    values: Mapping[str, float] = field(default_factory=dict)  # what was measured without jobs to compare, by argument
