"""What is promised: the only writer of where jobs are and how large they are."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from schedulearn.core.control.ledger import Ledger
from schedulearn.core.control.running_jobs import RunningJobs
from schedulearn.core.domain.ids import DeviceId, JobId, NodeName
from schedulearn.core.domain.job import Job, Move, Placement, grouped
from schedulearn.core.domain.node import Node, NodeState
from schedulearn.core.domain.resources import CPUS, GPUS, Resources
from schedulearn.core.domain.shape import Shape


def beyond(placements: Iterable[Placement], known: Iterable[Placement]) -> list[Placement]:
    """Those that are not among the known ones; of equal ones as many as are too many."""
    left, found = Counter(known), []
    for placement in placements:
        if left[placement]:
            left[placement] -= 1
        else:
            found.append(placement)
    return found


def copy_at(job: Job, placements: Iterable[Placement]) -> Job:
    """The same job with its workers there, to ask what could be done with it."""
    copy = replace(job)
    copy.placements = tuple(placements)
    return copy


class Places(NamedTuple):
    """Where a job is, and the same with equal neighbours counted together."""

    where: tuple[Placement, ...]
    grouped: Iterable[tuple[Placement, int]]


class Book:
    """The ledger, and which jobs have been promised something else than they have.

    Where a job is and how large (`placements`, `suspended_at`, `cores`, `shape`, `move`) is read everywhere and
    written here alone, together with the ledger.
    """

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self.jobs: dict[JobId, Job] = {}  # those that are not finished
        self.ledger = Ledger(nodes)  # what is promised
        self.places: dict[JobId, Places] = {}  # of all that have a promise, or are suspended
        self.there: dict[NodeName, set[JobId]] = defaultdict(set)  # who was promised something on a node
        self.without_gpus: dict[JobId, Job] = {}  # of all that have a promise
        self.removing = {n.name for n in self.ledger if n.node.state is NodeState.REMOVING}
        self.adjustable = {GPUS: RunningJobs(), CPUS: RunningJobs()}  # jobs whose promise a policy may change
        self.pending: dict[JobId, None] = {}  # promised, and waiting for others to leave; in order
        # Being stopped or suspended, and not out yet, while their place is already promised to others:
        self.leaving: set[JobId] = set()
        self.growing: dict[JobId, None] = {}  # run, and were promised more than they have; in order
        self.shrinking: set[JobId] = set()  # run on while some of their workers, told to leave, are not out yet
        self._alone: dict[JobId, tuple[Shape, Shape]] = {}  # the shapes, whole and suspended, of who once was suspended
        self._stale = True
        # The only nodes where it might, as far as those who take turns are concerned; None: anywhere:
        self.unsettled: set[NodeName] | None = None
        self.slots_freed = False  # whether a job has left its place since the last decision

    # --- what the next decision must look at

    @property
    def stale(self) -> bool:
        """Whether a decision now might differ from the last one."""
        return self._stale

    @stale.setter
    def stale(self, stale: bool) -> None:
        self._stale = stale
        if stale:
            self.unsettled = None

    def changed_at(self, placements: Sequence[Placement]) -> None:
        """It might differ, and that only because of what has changed there."""
        self._stale = True
        self.unsettle(placements)

    def unsettle(self, placements: Sequence[Placement]) -> None:
        """Once there is a decision, it must look there."""
        if self.unsettled is not None:
            for placement, _ in grouped(placements):
                self.unsettled.add(placement.node)

    # --- promises

    def forget_promises(self, nodes: Iterable[Node]) -> None:
        """Nobody has been promised anything of what these nodes have."""
        self.ledger = Ledger(nodes)
        self.places.clear()
        self.there.clear()
        self.without_gpus.clear()
        self.removing = {n.name for n in self.ledger if n.node.state is NodeState.REMOVING}
        self.adjustable = {GPUS: RunningJobs(), CPUS: RunningJobs()}
        for some in (self.pending, self.leaving, self.growing, self.shrinking):
            some.clear()

    def promise(
        self,
        job: Job,
        placements: tuple[Placement, ...],
        *,
        fixed: bool = False,
        cores: int | None = None,
        tried: bool = False,
    ) -> None:
        """Put the job there instead of where it is, with so many whole cores (None: as before), if that is free.

        `tried`: the ledger knows of it already.
        """
        was_promised = job.placements
        if not tried:
            self._put_on_ledger(job, placements, job.cores if cores is None else cores)
        job.placements = placements
        self._note_place(job, was_promised)
        if placements and not fixed:
            self.adjustable[job.shape.pool][job.id] = job

    def _put_on_ledger(self, job: Job, placements: tuple[Placement, ...], cores: int) -> None:
        before, had = job.placements, job.cores
        self.ledger.give_back_all(job.shape, before)
        if cores != had:
            self.set_cores(job, cores)
        try:
            self.ledger.take_checked(job.shape, placements)
        except Exception:
            if cores != had:
                self.set_cores(job, had)
            self.ledger.take_all(job.shape, before)
            raise

    def take_back(self, job: Job) -> None:
        """The job no longer has anything, and goes nowhere."""
        job.move, was_promised = None, job.placements
        if job.placements:
            self.ledger.give_back_all(job.shape, job.placements)
            self.changed_at(job.placements)
            job.placements = ()
            self.adjustable[job.shape.pool].pop(job.id, None)
            self.slots_freed = True
        if job.suspended_at:
            self.changed_at(job.suspended_at)
            self.slots_freed = True
            placements, job.suspended_at, job.shape = job.suspended_at, (), Shape.of(job.spec)
            for placement in placements if job.shape.memory.per_worker else ():
                self.ledger.give_back(job.shape.memory, Placement(placement.node))
        self._alone.pop(job.id, None)
        self._note_place(job, was_promised)
        if job.cores:
            self.set_cores(job, 0)
        self.pending.pop(job.id, None)

    def set_cores(self, job: Job, cores: int) -> None:
        """So many whole cores are its own from now on; 0: it has what its spec asks for, and is limited by that."""
        shape = Shape.of(job.spec)
        job.cores, job.shape = cores, shape.with_cores(cores) if cores else shape

    def set_move(self, job: Job, move: Move | None) -> None:
        """It is on the move from now on, or no more."""
        job.move = move

    def shed(self, job: Job, placements: Sequence[Placement]) -> None:
        """The job no longer needs these of its placements. Its workers there may still have to leave."""
        self.ledger.give_back_all(job.shape, placements)
        self.rearrange(job, beyond(job.placements, placements))
        self.stale = self.slots_freed = True

    def gain(self, job: Job, placements: Sequence[Placement]) -> None:
        """It is promised these, too. They must be free."""
        self.ledger.take_checked(job.shape, placements)
        self.rearrange(job, [*job.placements, *placements])

    def rearrange(self, job: Job, placements: Iterable[Placement]) -> None:
        """These are its placements; the ledger knows of them already."""
        was_promised, job.placements = job.placements, tuple(placements)
        self._note_place(job, was_promised)
        adjustable = self.adjustable[job.shape.pool]
        if job.id in adjustable:
            adjustable[job.id] = job

    def put_back(self, job: Job, placements: tuple[Placement, ...]) -> None:
        """It has its earlier promise again, which nothing has been given of meanwhile."""
        self.ledger.take_all(job.shape, placements)
        job.placements = placements
        self._note_place(job, ())

    def _note_place(self, job: Job, was_promised: Sequence[Placement]) -> None:
        where, known = job.placements or job.suspended_at, self.places.get(job.id)
        if job.placements is was_promised and where is (known.where if known else ()):
            return
        for placement, _ in known.grouped if known and was_promised else ():
            self.there[placement.node].discard(job.id)
        if not job.shape.gpus and job.placements:
            self.without_gpus[job.id] = job
        elif not job.shape.gpus:
            self.without_gpus.pop(job.id, None)
        if not where:
            self.places.pop(job.id, None)
            return
        if known is None or known.where is not where:
            known = self.places[job.id] = Places(where, grouped(where))
        for placement, _ in known.grouped if job.placements else ():
            self.there[placement.node].add(job.id)

    # --- after a restart

    def begin_anew(self, job: Job) -> None:
        """Whatever it had been promised is promised anew."""
        job.placements, job.suspended_at = (), ()
        self.set_cores(job, 0)

    def occupy(self, job: Job, placements: Iterable[Placement]) -> None:
        """Its workers are there, whatever else is promised, on nodes that are known and others."""
        for placement in placements:
            if self.ledger.node(placement.node):
                self.ledger.take(job.shape, placement)
            job.placements = (*job.placements, placement)
        self._note_place(job, ())

    # --- promises to suspended jobs

    def pin(self, job: Job, placements: tuple[Placement, ...]) -> None:
        """It is suspended in these placements: it keeps its memory there, and they are all it can be promised."""
        for placement in placements if job.shape.memory.per_worker else ():
            if self.ledger.node(placement.node):
                self.ledger.take(job.shape.memory, Placement(placement.node))
        was_promised, job.placements = job.placements, ()
        whole, alone = self._alone.get(job.id, (None, None))
        if alone is None or whole is not job.shape or alone.workers.want != len(placements):
            alone = job.shape.suspended(len(placements))
            self._alone[job.id] = (job.shape, alone)
        job.suspended_at, job.shape = placements, alone
        self._note_place(job, was_promised)

    def suspend(self, job: Job) -> None:
        """The same for one that was promised these placements whole."""
        self.ledger.give_back_all(job.shape, job.placements)
        self.pin(job, job.placements)

    def unpin(self, job: Job) -> None:
        """What it was promised, and the memory it kept, become one whole promise again."""
        job.suspended_at = ()
        self.set_cores(job, job.cores)

    def promised_on(self, node: NodeName) -> list[tuple[Resources, tuple[DeviceId, ...]]]:
        """All that jobs have been promised there, one entry for each worker."""
        whole = [(job.shape.per_worker, placement) for job in self.jobs.values() for placement in job.placements]
        kept = [(Shape.of(job.spec).memory, placement) for job in self.jobs.values() for placement in job.suspended_at]
        return [(amounts, placement.devices) for amounts, placement in whole if placement.node == node] + [
            (shape.per_worker, ()) for shape, placement in kept if placement.node == node
        ]
