"""The stages of a policy, and what they are given. A stage reads no clock, file, socket or random source."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, NamedTuple, Protocol

from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.shape import Shape
from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.core.policies.notes import Note
from schedulearn.core.policies.sharing import Left, Share

Memory = MutableMapping[str, Any]  # a policy's own notes between decisions: plain JSON, kept in the store
Key = tuple[Any, ...]  # numbers, compared in turn; smaller goes first


class Known(NamedTuple):
    """Which facts of a job are measured, of this job or of jobs like it; the others are assumed."""

    remaining: bool  # with its duration and estimate
    speedup: bool
    restart_cost: bool
    locality_penalty: bool


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

    def known(self, job: Job, now: float) -> Known:
        """Which of the facts are measured."""

    def measured_up_to(self, job: Job) -> int:
        """The largest number of workers at which it, or jobs that run the same, were measured, of several; 0: its
        speed-up is that of jobs of its name, or assumed."""

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
    """Who goes first? A subclass gives a key; the hooks are for orders that keep a note of their own on each job.

    Priority is compared before the key, the serial number after it; jobs that have reached their target and yield come
    after all others. That note (`job.order_state`, plain JSON) is changed by hooks alone, so that
    looking at a queue never changes it.
    """

    preemptive = False  # may a waiting job take the place of a running one?
    suspends = False  # is such a job suspended where it is, instead of stopped?
    packs = False  # do jobs run on beside others when their turn is over, where both gain? In simulations alone
    takes_turns = False  # does that note change by itself only while jobs wait?
    key_changes = KeyChanges.NEVER
    generation = 0  # goes up when the keys of all jobs have changed at once
    running_moves_forward = False  # does the key of a running job only fall between hooks, if the facts are steady?
    keeps_state = False  # whether the hooks below need to be called

    def key(self, job: Job, now: float, facts: Facts) -> Key:
        raise NotImplementedError

    def key_holds(self, job: Job, now: float, facts: Facts) -> float:
        """Until when the key of a waiting job surely stays, if keys change by themselves and the facts are steady."""
        return now

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
        """When the note on this job, running or waiting, changes by itself."""
        return None

    def expired(self, job: Job, now: float, memory: Memory) -> bool:
        """That time may have come: look, and say whether it has changed."""
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


class Ask(NamedTuple):
    """What a job asks for, as an allocate stage counts it: in workers, or in whole cores (see `Allocate`)."""

    cost: float  # slots that each takes
    min: int  # it cannot run with fewer
    want: int
    max: int
    has: int  # now


class Running(Protocol):
    """The running jobs that a decision may change."""

    def values(self) -> Collection[Job]:
        """All of them, in no particular order, which costs nothing."""

    def __len__(self) -> int: ...

    def in_order(self) -> list[Job]: ...

    def last_first(self) -> Iterator[tuple[Key, Job]]:
        """With their ranks, from the back of the order: only those that are looked at cost anything."""


class Allocation(Protocol):
    """The slots of one pool, and the jobs to give them to.

    A slot is a GPU, or a core in the pool of jobs that ask for no GPU. Running jobs that may not lose what they have
    are no part of it. A running job that is part of it and is given nothing loses its workers.
    """

    now: float
    facts: Facts
    order: Order
    memory: Memory
    waiting_count: int
    sizes_are_fixed: bool  # can nobody have another number of workers than it has or wants?
    everything_fits: bool  # was every job that fits by the number of slots found to have a place?

    @property
    def preemptive(self) -> bool:
        """May a running job lose all its workers? Otherwise it must be given at least min, unless it yields."""

    @property
    def nodes(self) -> "Nodes":
        """The nodes as they are before this decision: nothing that is given in it is taken there yet."""

    @property
    def running(self) -> Running: ...

    @property
    def slots(self) -> float:
        """All slots that can be given."""

    @property
    def left(self) -> float:
        """Slots that were not given yet."""

    @property
    def free(self) -> float:
        """Slots that no job has."""

    @property
    def fixed(self) -> float:
        """Slots that cannot be given: of running jobs that may not lose what they have."""

    def shapes(self) -> set[Shape]:
        """All shapes among the running and waiting jobs."""

    def secure(self) -> list[Job]:
        """The running jobs that must be given at least min, in order."""

    def claimants(self) -> Iterator[Job]:
        """All others in order: running jobs that may lose their place, and the first waiting job of each shape. A
        waiting job that is given something makes way for the next of its shape; one that is refused closes its shape.
        """

    def waiting(self, *, all_of_them: bool = False) -> Iterator[Job]:
        """The same without the running ones; or all that wait: then give nothing before the last was seen."""

    def candidates(self) -> Iterator[Job]:
        """The same, for stages that change no size: a running job keeps what it has, or loses all of it where those
        before it in the order were given too much. Only those that lose are looked at."""

    def rank(self, job: Job) -> Key:
        """Its place in the order: the smaller goes first."""

    def ask(self, job: Job) -> Ask:
        """What it asks for, and what it has."""

    def room(self, job: Job) -> int:
        """How many more than it has been given so far are left; of whole cores: on one node."""

    def give(self, job: Job, workers: int) -> bool:
        """Give it so many workers in all; False, with nothing changed, if they do not fit."""

    def give_all(self, sizes: Iterable[tuple[Job, int]]) -> None:
        """The same for many at once that run or were given something before; BadPlan if they do not fit."""

    def give_least(self, cost: float, but: Sequence[Job]) -> None:
        """All running jobs get their min, which takes so many slots each, but these get nothing. Call it first."""

    def refuse(self, job: Job, why: Refusal | None = None, *, rest: bool = False) -> None:
        """A waiting job gets nothing, and neither does any other of its shape (`rest`: or any after it)."""

    def reserve(self, job: Job) -> None:
        """Keep the nodes where it will soonest fit free of anything given later in this decision."""

    def passed_since(self, before: Job | None) -> float:
        """When the first job was queued that was not shown because it cannot fit (see `Allocate`), of those that come
        before this job, if there is one; inf: all were shown."""


class Allocate:
    """How many workers each?

    A stage that says what it `tries` gives each waiting job that `candidates` or `claimants` show just so many workers,
    or refuses it: then jobs that cannot have so many need not be shown, unless they have waited for longer than its
    `starvation_guard`.

    One with `counts_cores` gives out whole cores of one node: what it counts as the workers of a job with one container
    (and no GPU) are the cores of that. No job loses any by that, and one that is given more has it without a restart.
    """

    elastic = False  # does it change the number of workers of a running job?
    counts_cores = False
    regardless = False  # under an order that suspends: do all get what they want if it is free, whoever is refused?
    tries: Literal["min", "want"] | None = None
    starvation_guard = math.inf  # seconds

    def allocate(self, allocation: Allocation) -> float | None:
        """Give what is to be given; return when to be asked again although nothing happened."""
        raise NotImplementedError

    def enough(self, job: Job, facts: Facts) -> int | None:
        """How many workers it gives a job that no other job is in the way of: if there is room for all at that, it is
        not asked. None: it is always asked."""
        return None

    def why(self, job: Job, allocation: Allocation) -> str | None:
        """In a sentence for a person: why the job has as many workers as it has, or none. Nothing is given here."""
        return None


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
    """All nodes as stages see them, in their own order."""

    def __iter__(self) -> Iterator[FreeNode]: ...

    def first_with_room(self, shape: Shape, workers: int) -> FreeNode | None:
        """The first node on which all the workers fit."""

    def by_room(self, shape: Shape) -> Iterator[tuple[int, FreeNode]]:
        """Nodes with room, those with most room first."""

    def amounts(self, resource: str) -> tuple[float, float]:
        """What the nodes that take jobs have of a resource in all, and what of it is free."""


class Place:
    """On which nodes?"""

    surveys = False  # does `survey` need to be called?

    def survey(self, board: "Board", memory: Memory) -> None:
        """Called before each decision: note what must be known of the jobs that run."""

    def place(self, job: Job, shape: Shape, workers: int, nodes: Nodes, memory: Memory) -> list[NodeName] | None:
        """A node for each of so many new workers, or None if they do not fit.

        `shape` is what each of them takes; where whole cores are given out, that is not what the job's own shape says.
        """
        raise NotImplementedError


class Board(Protocol):
    """Who is where: what a migrate stage looks at."""

    now: float
    facts: Facts

    def jobs(self) -> Sequence[Job]:
        """All that have a place, or are on their way to one, by number; `job.placements` says where."""

    def jobs_without_gpus(self) -> Sequence[Job]:
        """Of these those that share cores with others."""

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
        return self.allocate.counts_cores
