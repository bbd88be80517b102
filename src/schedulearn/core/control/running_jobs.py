"""The running jobs whose promise a policy may change, and who of them would be the first to go."""

from bisect import insort
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.policies.stages import Facts, Key, Order


class RunningJobs(dict[JobId, Job]):
    """Running jobs by number, and from the back of the order without a look at those further to the front.

    Where a running job only moves forward in the order, an earlier key says how far back it can be at most. So they
    stay in a line by such keys, which are renewed from its end, as far as somebody looks. Under other orders all keys
    are made anew.
    """

    def __init__(self, jobs: Iterable[Job] = ()) -> None:
        super().__init__()
        self.slots = 0.0  # that all of them hold together
        self.resizable: set[JobId] = set()  # those that could have another number of workers than they have
        self._held: dict[JobId, float] = {}
        self._renewed: dict[JobId, Job] = {}  # those who may have moved back since their key was made
        self._changed: dict[JobId, Job] = {}  # those who may not have as many workers as they would be given at ease
        self._yielding: dict[JobId, Job] = {}
        self._line: list[tuple[Key, int, Job]] = []  # (key as it once was, serial of this entry, job), in order
        self._newest: dict[JobId, int] = {}  # the serial of each job's newest entry
        self._serial = 0
        self._keyed_by: tuple[Order, Facts] | None = None
        for job in jobs:
            self[job.id] = job

    def __setitem__(self, number: JobId, job: Job) -> None:
        """It is one of them from now on, or has other workers than before."""
        super().__setitem__(number, job)
        size, range_ = len(job.placements), job.shape.workers
        slots = size * job.shape.slots
        if range_.min == range_.max == size:
            self.resizable.discard(number)
        else:
            self.resizable.add(number)
        self.slots += slots - self._held.get(number, 0.0)
        self._held[number] = slots
        self._renewed[number] = self._changed[number] = job
        if job.reached_at is not None or self._yielding:
            self._note_yielding(job)

    def pop(self, number: JobId, *default: Any) -> Any:
        self.slots -= self._held.pop(number, 0.0)
        self.resizable.discard(number)
        self._changed.pop(number, None)
        self._renewed.pop(number, None)
        self._yielding.pop(number, None)
        self._newest.pop(number, None)
        return super().pop(number, *default)

    def renew(self, job: Job) -> None:
        """It may have moved back in the order: its priority, the order's note on it or whether it yields is another."""
        if job.id in self:
            self._renewed[job.id] = job
            self._note_yielding(job)

    def _note_yielding(self, job: Job) -> None:
        if job.yields:
            self._yielding[job.id] = job
        else:
            self._yielding.pop(job.id, None)

    @property
    def yielding(self) -> "RunningJobs":
        """Those who have reached their target: they make way for others under any order."""
        return RunningJobs(self._yielding.values()) if self._yielding else NONE_RUNNING

    def all_have(self, enough: Callable[[Job, Facts], int | None], facts: Facts) -> bool:
        """Does each of them have just so many workers?"""
        for number, job in list(self._changed.items()):
            if number in self and len(job.placements) != enough(job, facts):
                return False
            del self._changed[number]
        return True

    def last_first(self, order: Order, facts: Facts, now: float) -> Iterator[tuple[Key, Job]]:
        """With their ranks, from the back of the order."""
        if order.running_moves_forward and facts.steady:
            return self._from_line(order, facts, now)
        return iter(sorted([(rank(job, order, facts, now), job) for job in self.values()], reverse=True))

    def _from_line(self, order: Order, facts: Facts, now: float) -> Iterator[tuple[Key, Job]]:
        self._catch_up(order, facts, now)
        line, at = self._line, len(self._line)
        while at:
            at -= 1
            _, serial, job = line[at]
            if self._newest.get(job.id) != serial:
                del line[at]
                continue
            key = rank(job, order, facts, now)
            if at and key < line[at - 1][0]:
                del line[at]
                insort(line, (key, serial, job))
                at += 1
                continue
            line[at] = (key, serial, job)
            yield key, job

    def _catch_up(self, order: Order, facts: Facts, now: float) -> None:
        # Entries of jobs that have left are dropped when somebody comes to them; here if they become too many.
        if self._keyed_by != (order, facts) or len(self._line) > 1000 + 4 * len(self):
            self._keyed_by = (order, facts)
            self._line.clear()
            self._renewed = dict(self)
        for job in self._renewed.values():
            self._serial += 1
            self._newest[job.id] = self._serial
            insort(self._line, (rank(job, order, facts, now), self._serial, job))
        self._renewed.clear()


class InOrder:
    """Implements `policies.stages.Running`: the same in the order of a policy, at one moment."""

    def __init__(self, jobs: RunningJobs, order: Order, facts: Facts, now: float) -> None:
        self._jobs, self._order, self._facts, self._now = jobs, order, facts, now

    def __len__(self) -> int:
        return len(self._jobs)

    def values(self) -> Collection[Job]:
        return self._jobs.values()

    def in_order(self) -> list[Job]:
        return [job for _, job in self.with_ranks()]

    def with_ranks(self) -> list[tuple[Key, Job]]:
        order, facts, now = self._order, self._facts, self._now
        return sorted([(rank(job, order, facts, now), job) for job in self._jobs.values()])  # ranks never tie

    def last_first(self) -> Iterator[tuple[Key, Job]]:
        return self._jobs.last_first(self._order, self._facts, self._now)


NONE_RUNNING = RunningJobs()


def rank(job: Job, order: Order, facts: Facts, now: float) -> Key:
    """Priority comes before an order's own key, the serial number of submission after it.

    Before all comes whether it has reached its target: those that have go after all others. Among themselves they are
    ordered as others are; so where nobody is interrupted, who of them runs goes before who waits.
    """
    late = 0 if job.reached_at is None or not job.yields else 1 if job.placements and not order.preemptive else 2
    return (late, -job.priority, *order.key(job, now, facts), job.id)
