"""The stages of a policy, and what they are given. A stage reads no clock, file, socket or random source."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.shape import Shape
from schedulearn.core.domain.spec import Workers
from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.core.policies.notes import Note
from schedulearn.core.policies.sharing import Left, Share

Memory = MutableMapping[str, Any]  # a policy's own notes between decisions: plain JSON, kept in the store
Key = tuple[Any, ...]  # numbers, compared in turn; smaller goes first


class Facts(Protocol):
    """What is known, or guessed, of a job beyond what its user said."""

    steady: bool  # does what remains of a running job only fall, and its curve stay, while it is not stopped?

    def remaining(self, job: Job, now: float) -> float:
        """Seconds it still needs with the workers it wants; inf where nothing is known."""

    def estimate(self, job: Job, now: float) -> Left | None:
        """The same with its range; None where nothing is known."""

    def duration(self, job: Job) -> float:
        """Seconds it needs in all with the workers it wants, as guessed when it was submitted."""

    def speedup(self, job: Job) -> SpeedUp: ...

    def restart_cost(self, job: Job) -> float:
        """Seconds that stopping it and starting it again takes; 0 where that is free."""

    def locality_penalty(self, job: Job) -> float:
        """The part of its speed that it loses while its workers are on several nodes, 0 to below 1."""

    def metric(self, job: Job, now: float, since: float = -math.inf) -> float | None:
        """The newest value of the job's metric, if it came after `since`; None: it was silent."""


class KeyChanges(Enum):
    """When the key of a waiting job may change without a call of the order's own hooks."""

    NEVER = "never"
    ALWAYS = "always"  # slow but right


class Order:
    """Who goes first? A subclass gives a key; the hooks are for orders that keep a mark on each job.

    Priority is compared before the key, the serial number after it; jobs that have reached their target and yield come
    after all others. A mark is the order's own note on a job (`job.mark`, plain JSON); only hooks change it, so that
    looking at a queue never changes it.
    """

    preemptive = False  # may a waiting job take the place of a running one?
    suspends = False  # is such a job suspended where it is, instead of stopped?
    takes_turns = False  # do marks change by themselves only while somebody waits?
    key_changes = KeyChanges.NEVER
    generation = 0  # goes up when the keys of all jobs have changed at once
    running_moves_forward = False  # does the key of a running job only fall between hooks, if the facts are steady?
    keeps_marks = False  # whether the hooks below need to be called

    def key(self, job: Job, now: float, facts: Facts) -> Key:
        raise NotImplementedError

    def joined(self, job: Job, now: float, memory: Memory) -> None:
        """The job has joined the queue, for the first time or again after a failure."""

    def decided(
        self, started: Sequence[Job], stopped: Sequence[Job], jobs: Mapping[JobId, Job], memory: Memory
    ) -> None:
        """A decision was made: these of all jobs have just got workers, and these have lost theirs."""

    def queue_of(self, job: Job) -> int:
        """Which of its queues the job is in, 0 for the first; an order may well have only one."""
        return 0

    def expires(self, job: Job, now: float) -> float | None:
        """When the mark of this job, running or waiting, changes by itself."""
        return None

    def expired(self, job: Job, now: float, memory: Memory) -> bool:
        """That time may have come: look, and say whether the mark has changed."""
        return False

    def finished(self, job: Job, now: float, memory: Memory) -> None:
        """The job has ended; an order may learn from it."""


@dataclass(frozen=True, slots=True)
class DoesNotFit:
    """There is not enough free, or not in the right places."""

    stage: str = "allocate"


@dataclass(frozen=True, slots=True)
class NoPlace:
    """There is enough in all, but no way to place it."""

    stage: str = "place"


@dataclass(frozen=True, slots=True)
class HeldBehind:
    """It would fit, but another job goes first: the head of a strict line, or one with a reservation."""

    job: JobId
    stage: str = "allocate"


Refusal = DoesNotFit | NoPlace | HeldBehind


class Contest(Protocol):
    """The slots of one pool and who is after them.

    A slot is a GPU, or a core in the pool of jobs that ask for no GPU. Running jobs that may not lose what they
    have are no part of it. Whoever is part of it and is given nothing loses its workers.
    """

    now: float
    facts: Facts

    @property
    def left(self) -> float:
        """Slots that nobody was given yet."""

    @property
    def slots(self) -> float:
        """All slots of this contest."""

    @property
    def fixed(self) -> float:
        """Slots that are no part of it: of running jobs that may not lose what they have."""

    def amounts(self, resource: str) -> tuple[float, float]:
        """What the nodes that take jobs have of a resource in all, and what of it is free."""

    @property
    def waiting_count(self) -> int: ...

    @property
    def preemptive(self) -> bool:
        """May a running job lose all its workers? Otherwise it must be given at least min, unless it yields."""

    def secure(self) -> list[Job]:
        """The running jobs that must be given at least min, in order."""

    def claimants(self) -> Iterator[Job]:
        """All others, as `in_order`: who waits, and who runs and may lose its place to them."""

    def running(self) -> list[Job]:
        """The running jobs of this contest, in order."""

    @property
    def holders(self) -> Mapping[JobId, Job]:
        """The same by number, in no particular order, which costs nothing."""

    def in_order(self) -> Iterator[Job]:
        """Running jobs and the heads of the waiting ones, in order: each waiting job that is given something
        makes way for the next of its shape, one that is refused closes its shape."""

    def waiting(self) -> Iterator[Job]:
        """The same, without the running ones."""

    def contenders(self) -> Iterator[Job]:
        """The same, without those running jobs that are sure to keep what they have. For stages that change no size."""

    @property
    def room_is_enough(self) -> bool:
        """Has nobody who would fit by the number of slots been found to have no place?"""

    def all_waiting(self) -> Iterator[Job]:
        """Not only the heads, in order; give nothing before you have seen all you want to see."""

    def least_costs(self) -> set[float]:
        """What slots the min of a job takes: all that occur among running and waiting jobs."""

    def rank(self, job: Job) -> Key:
        """Its place in the order: the smaller goes first."""

    def queue_of(self, job: Job) -> int:
        """Which of the order's queues it is in, 0 for the first."""

    def last_first(self) -> Iterator[tuple[Key, Job]]:
        """The running jobs with their ranks, from the back of the order."""

    def cost(self, job: Job) -> float:
        """Slots that one worker takes. (Where whole cores are given out, each core of a container is one of its
        "workers" for the stage: see `Allocate`.)"""

    def size(self, job: Job) -> Workers:
        """How many workers it may have, and how many it asks for."""

    def has(self, job: Job) -> int:
        """How many workers it has now."""

    def room(self, job: Job) -> int:
        """How many more than it has been given so far are left; of whole cores: on one machine."""

    def need(self, job: Job, workers: int) -> Resources:
        """What it takes in all with so many workers."""

    def stays(self, job: Job) -> bool:
        """Would it be no part of a contest any more once it runs? Then nobody could interrupt it."""

    def give(self, job: Job, workers: int) -> bool:
        """Give it so many workers in all; False, with nothing changed, if they do not fit."""

    def give_all(self, sizes: Iterable[tuple[Job, int]]) -> None:
        """The same for many at once who run or were given something before; BadPlan if they do not fit."""

    def give_least(self, cost: float, but: Sequence[Job]) -> None:
        """All running jobs get their min, which takes so many slots each, but these get nothing. Call it first."""

    def refuse(self, job: Job, why: Refusal | None = None) -> None:
        """A waiting job gets nothing, and neither does any other of its shape."""

    def refuse_rest(self, behind: Job) -> None:
        """Nobody after this job gets anything."""

    def passed_since(self, before: Job | None) -> float:
        """When the first of those was queued that were not shown because they cannot fit (see `Allocate`), of those
        that come before this job, if there is one; inf: there was nobody."""

    def reserve(self, job: Job) -> None:
        """Keep the nodes where it will soonest fit free of any later grant in this decision."""


AtEase = Callable[[Job, Facts], int]
Tries = Callable[[Workers], int]


class Allocate(Protocol):
    """How many workers each?

    A stage may also have `at_ease(job, facts) -> int`: how many it gives a job that no other job is in the way of. If
    there is room for everybody at that, it is not asked at all. One with `tries(workers) -> int` gives each waiting job
    that `contenders` or `claimants` show just so many workers, or refuses it: then those who cannot have so many need
    not be shown, but for those who have waited for longer than the stage's `starvation_guard`, if it has one.

    One with `counts_cores = True` gives out whole cores of one machine: what it counts as the workers of a job with one
    container (and no GPU) are the cores of that. Nobody loses any in its contests, and who is given more has it without
    a restart.
    """

    elastic: bool  # does it change the number of workers of a running job?

    def allocate(self, contest: Contest) -> float | None:
        """Give what is to be given; return when to be asked again although nothing happened."""


class FreeNode(Protocol):
    """What one node has left in this decision."""

    @property
    def name(self) -> NodeName: ...

    def room_for(self, shape: Shape) -> int:
        """How many workers of this shape still fit."""

    def could_hold(self, shape: Shape) -> bool:
        """Whether a worker of this shape would fit if nobody were there."""

    @property
    def surroundings(self) -> str:
        """What a job that names no image finds there: only where that is the same it can go on."""

    def free_slots(self, pool: str) -> float:
        """GPUs, or cores, that are free for jobs of this pool."""

    def amounts(self, resource: str) -> tuple[float, float]:
        """What the node has of a resource for jobs in all, and what of it is free."""


class Nodes(Protocol):
    """All nodes as a place stage sees them, in their own order."""

    def __iter__(self) -> Iterator[FreeNode]: ...

    def first_with_room(self, shape: Shape, workers: int) -> FreeNode | None:
        """The first node on which all the workers fit."""

    def by_room(self, shape: Shape) -> Iterator[tuple[int, FreeNode]]:
        """Nodes with room, those with most room first."""


class Place(Protocol):
    """On which machines?

    A stage may also have `survey(board, memory)`: asked before each decision, it notes what it must know of the jobs
    that are there already.
    """

    def place(self, shape: Shape, workers: int, nodes: Nodes, memory: Memory) -> list[NodeName] | None:
        """A node for each worker, or None if they do not fit."""


class Board(Protocol):
    """Who is where: what a migrate stage looks at."""

    now: float
    facts: Facts

    def jobs(self) -> Sequence[Job]:
        """All that have a place, or are on their way to one, by number; `job.spots` says where."""

    def may_move(self, job: Job) -> bool:
        """Whether it runs (and is not on the move already), and loses little by a stop."""

    def nodes(self) -> Iterator[FreeNode]:
        """The nodes that take jobs, in their own order, with what is free there."""

    def fits(self, to: Mapping[JobId, Sequence[NodeName]]) -> bool:
        """Whether these jobs, each gone from where it is, would all have room there, in every resource."""


@dataclass(frozen=True, slots=True)
class Moves:
    """Who moves where."""

    to: Mapping[JobId, Sequence[NodeName]] = field(default_factory=dict)  # a node for each worker of the job
    wake_at: float | None = None  # when to be asked again although nothing happened
    why: str = ""  # for a person
    notes: Sequence[Note] = ()  # recorded whether or not somebody moves
    growth: Mapping[JobId, float] = field(default_factory=dict)  # by how much metrics changed, of those looked at now


class Migrate(Protocol):
    """Who should move? Asked after each decision, when the others have their places."""

    def migrate(self, board: Board, memory: Memory) -> Moves:
        """Each move stops a job, with its grace, and starts it elsewhere; that costs `facts.restart_cost`."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A combination of stages."""

    preset: str
    order: Order
    allocate: Allocate
    place: Place
    share: Share | None = None  # None: nobody is limited, and nobody looks
    migrate: Migrate | None = None  # None: nobody is moved
    stages: dict[str, str] = field(default_factory=dict)  # the names of the stages
    params: dict[str, Any] = field(default_factory=dict)  # the parameters in force

    @property
    def counts_cores(self) -> bool:
        return bool(getattr(self.allocate, "counts_cores", False))
