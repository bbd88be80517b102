"""The protocols of the stages, and what they are given. A stage reads no clock, file, socket or random source."""

from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from schedulearn.domain.ids import JobId, NodeName
from schedulearn.domain.job import Job
from schedulearn.domain.shape import Shape

Memory = MutableMapping[str, Any]  # a stage's own notes between decisions: plain JSON, kept in the store
Key = tuple[float, ...]


class KeyChanges(Enum):
    """When the key of a waiting job may change without an event of its own."""

    NEVER = "never"
    ALWAYS = "always"  # the safe default: slow but right


class Order(Protocol):
    """Who goes first?"""

    preemptive: bool  # may a waiting job take the place of a running one?
    key_changes: KeyChanges

    def key(self, job: Job, now: float) -> Key:
        """Smaller goes first. Priority is compared before it, the serial number after it."""


class FreeNode(Protocol):
    """What one node has left in this decision."""

    @property
    def name(self) -> NodeName: ...

    def room_for(self, shape: Shape) -> int:
        """How many workers of this shape still fit."""


class Place(Protocol):
    """On which machines?"""

    def place(self, shape: Shape, workers: int, nodes: Sequence[FreeNode], memory: Memory) -> list[NodeName] | None:
        """A node for each worker, or None if they do not fit."""


class Refusal(Protocol):
    """Why a job gets nothing now; `explain` turns it into a sentence."""

    @property
    def stage(self) -> str: ...


@dataclass(frozen=True, slots=True)
class DoesNotFit:
    """There is not enough free, or not in the right places."""

    stage: str = "place"


@dataclass(frozen=True, slots=True)
class HeldBehind:
    """It would fit, but another job goes first: the head of a strict line, or one with a reservation."""

    job: JobId
    stage: str = "allocate"


class Room(Protocol):
    """What is free in this decision, and how to take it. Grants can be tried and undone."""

    def grant(self, job: Job, workers: int) -> bool:
        """Place so many workers of the job; False, with nothing changed, if they do not fit."""

    def reserve(self, job: Job, workers: int) -> None:
        """Keep the nodes where it will soonest fit free of any later grant in this decision."""

    def refuse(self, job: Job, why: Refusal) -> None:
        """Note why it, and every job of its shape, gets nothing."""


class Walk(Protocol):
    """The waiting jobs in order, seen through the heads of their shapes."""

    def __iter__(self) -> "Walk": ...

    def __next__(self) -> Job:
        """The next job in order among the open shapes. After a job was refused, close its shape."""

    def close(self, shape: Shape) -> None:
        """Look at no further job of this shape in this decision."""

    def rest(self) -> Iterable[Job]:
        """The heads of all shapes that are still open."""


class Allocate(Protocol):
    """How many workers each?"""

    def allocate(self, walk: Walk, room: Room, now: float) -> float | None:
        """Grant what is to be granted; return when to be asked again although nothing happened."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A combination of stages."""

    preset: str
    order: Order
    allocate: Allocate
    place: Place
    stages: dict[str, str] = field(default_factory=dict)  # the names of the stages
    params: dict[str, Any] = field(default_factory=dict)  # the parameters in force
