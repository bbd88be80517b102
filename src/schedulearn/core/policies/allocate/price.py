"""Workers go where they bring most: the speed that each gains times the price of the job's work (our own).

While jobs speed up ever less with each further worker, the sum of all completion times falls most if every slot goes
where price × speed gained is largest. The price of a job's work is what one unit of it less would save: the job's own
end comes earlier, and so do the ends of all that have more left to do and get its slots after it.
"""

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple

from schedulearn.core.domain.job import Job
from schedulearn.core.domain.resources import EPSILON
from schedulearn.core.policies.belief import Amounts, Speeds, seconds_left, speeds
from schedulearn.core.policies.stages import Allocate, Allocation, Ask

_BINS, _MOST_BINS = 4, 160  # of amounts of work: to each factor of two, and in all
_LOOK_AGAIN = 300.0  # seconds after which all that wait are looked at again
_OTHERS = 0.05  # or once so large a part of them are others
_WAITING = "price.waiting"  # what was seen of them then


Bins = tuple[int, ...]  # equally likely ones


class Step(NamedTuple):
    """Some more workers for a job."""

    below: int  # so many it has before
    workers: int
    gain: float  # of speed, for each more


@dataclass(slots=True, eq=False)
class Bidder:
    """A job, and what it would do with workers."""

    job: Job
    ask: Ask
    left: float  # work, the mean of what it may be: slot-seconds at the size at which a slot does most
    bins: Bins  # of its equally likely amounts
    speeds: Speeds  # slots that would do as much at that size
    due: float  # when it has waited too long
    price: float = 0.0
    steps: list[Step] = field(default_factory=list)  # ever less gain
    given: int = 0
    taken: int = 0  # of its steps

    @property
    def next_step(self) -> Step | None:
        while self.taken < len(self.steps) and self.steps[self.taken].workers <= self.given:
            self.taken += 1
        return self.steps[self.taken] if self.taken < len(self.steps) else None

    @property
    def worth(self) -> float:
        """Of its next step for each slot: seconds that all jobs together would save in each second."""
        return self.price * self.next_step.gain / self.ask.cost if self.next_step else 0.0


class Price(Allocate):
    """Each worker goes where price × speed gained is largest.

    The `own` end counts for so much, and `fair` adds so many times the number of all jobs to the price of each, so
    that long ones get something, too. A job that would be restarted gains less, by what the restart takes of the time
    that it has left, or of `horizon`; one that would be stopped loses `stop` times as much. What is not known is taken
    as `belief` has it. A job that has waited `patience_from` longer than `patience` times what it will at least take
    comes first, with its min, until it has caught up; such jobs hold `guarded` of the slots, or one of them more.
    """

    elastic = True

    def __init__(
        self,
        own: float = 0.7,
        fair: float = 0.25,
        horizon: float = 600.0,
        stop: float = 5.0,
        assumed: float = 0.8,
        job_patience: float = 8.0,
        patience_from: float = 3600.0,
        guarded: float = 0.1,
    ) -> None:
        self.own, self.fair, self.horizon, self.stop, self.assumed = own, fair, horizon, stop, assumed
        self.patience, self.patience_from, self.guarded = job_patience, patience_from, guarded

    def allocate(self, allocation: Allocation) -> float | None:
        if allocation.sizes_are_fixed and _all_fit(allocation):
            for job in allocation.candidates():
                if not allocation.give(job, job.shape.workers.want):
                    allocation.refuse(job)
            return None
        return _Auction(self, allocation).run()

    def why(self, job: Job, allocation: Allocation) -> str | None:
        auction = _Auction(self, allocation)
        auction.run()
        bidder, last = auction.bidder(job), auction.last
        if last is None or last[1] is bidder or not bidder.next_step:
            return None
        worth, other = last
        slot = "GPU" if job.shape.gpus else "core"
        return (
            f"One more {slot} here would save all jobs together {bidder.worth:.2g} s in each second; "
            f"the last one that was given out saves {worth:.2g} s, at job {other.job.id} ({other.job.spec.name})."
        )

    def bidder(self, job: Job, allocation: Allocation) -> Bidder:
        """Without its price, for which all others must be known."""
        ask, now = allocation.ask(job), allocation.now
        fast = speeds(job, ask, allocation.facts, self.assumed)
        slots = min([n * ask.cost / speed for n, speed in fast.items()])  # for each unit of speed
        fast = {n: speed * slots for n, speed in fast.items()}
        wanted = fast.get(ask.want) or max(fast.values())
        left, worked = seconds_left(job, allocation.facts, now), job.worked.at(now)
        due = (
            job.submitted_at
            + self.patience_from
            + worked
            + self.patience * (worked + left[0 if job.is_preemptible else 4])
        )
        return Bidder(job, ask, wanted * sum(left) / len(left), bins_of(left, wanted), fast, due)

    def set_price(self, bidder: Bidder, allocation: Allocation, crowd: "Crowd") -> None:
        job, ask, fast = bidder.job, bidder.ask, bidder.speeds
        longer = crowd.longer(bidder.bins)
        bidder.price = self.own / max(fast.values()) + (longer + self.fair * crowd.jobs) / max(1.0, allocation.slots)
        cost = allocation.facts.restart_cost(job) if job.attempt else 0.0
        values = {0: 0.0, **fast}
        if cost:
            for n, speed in fast.items():
                lost = cost / min(self.horizon, cost + bidder.left / speed)
                if n == ask.has:
                    values[0] = -self.stop * lost * speed
                else:
                    values[n] = speed * (1 - lost)
        bidder.steps = list(hull(values))


def _all_fit(allocation: Allocation) -> bool:
    """Whether nothing needs to be weighed, as all that wait fit beside those that run."""
    if allocation.waiting_count > allocation.free:
        return False
    waiting = allocation.waiting(all_of_them=True)
    return sum(job.shape.workers.want * job.shape.slots for job in waiting) <= allocation.free + EPSILON


def hull(values: dict[int, float]) -> Iterator[Step]:
    """The steps of the smallest concave curve above these values: a step that pays only as a whole is one."""
    if len(values) == 2:  # its size is fixed
        (_, nothing), (workers, value) = values.items()
        if value > nothing:
            yield Step(0, workers, (value - nothing) / workers)
        return
    points: list[tuple[int, float]] = []
    for point in sorted(values.items()):
        while len(points) > 1 and _slope(points[-1], point) > (1 + EPSILON) * _slope(points[-2], points[-1]):
            points.pop()
        if not points or point[1] > points[-1][1]:
            points.append(point)
    for low, high in pairwise(points):
        yield Step(low[0], high[0], _slope(low, high))


def _slope(low: tuple[int, float], high: tuple[int, float]) -> float:
    return (high[1] - low[1]) / (high[0] - low[0])


class Crowd:
    """How much work the jobs of a pool have left, as a histogram."""

    def __init__(self, jobs: float = 0.0, bins: Sequence[float] = ()) -> None:
        self.jobs = jobs
        self._bins = [*bins, *[0.0] * (_MOST_BINS - len(bins))]
        self._longer: list[float] = []  # for each bin: jobs that have more left than one of it

    def add(self, bins: Bins) -> None:
        self.jobs += 1
        for at in bins:
            self._bins[at] += 1 / len(bins)

    def join(self, other: "Crowd", jobs: float) -> None:
        """Another crowd, of which there are so many now."""
        times = jobs / max(1.0, other.jobs)
        self.jobs += jobs
        self._bins = [own + times * more for own, more in zip(self._bins, other._bins, strict=True)]

    @property
    def bins(self) -> list[float]:
        """To be kept."""
        last = max((at for at, jobs in enumerate(self._bins) if jobs), default=-1)
        return [round(jobs, 1) for jobs in self._bins[: last + 1]]

    def longer(self, bins: Bins) -> float:
        """The expected number of jobs that have more left."""
        if not self._longer:
            beyond = [*accumulate(reversed(self._bins))][::-1]
            # Those in the same bin are as likely longer as shorter.
            self._longer = [total - here / 2 for total, here in zip(beyond, self._bins, strict=True)]
        return sum([self._longer[at] for at in bins]) / len(bins)


def bins_of(left: Amounts, wanted: float) -> Bins:
    """Of these seconds, times the slots that are at work in them."""
    if left[0] == left[-1]:  # all is known
        return (_bin(left[0] * wanted),)
    return tuple([_bin(seconds * wanted) for seconds in left])


def _bin(amount: float) -> int:
    return min(_MOST_BINS - 1, int(_BINS * math.log2(max(amount, 1.0))))


class _Auction:
    """One decision."""

    def __init__(self, rule: Price, allocation: Allocation) -> None:
        self._rule, self._allocation = rule, allocation
        self._bidders: dict[int, Bidder] = {}
        self._crowd = Crowd()
        self._late: list[Bidder] = []  # of those that wait
        self._offers: list[tuple[float, int, Bidder]] = []
        self._left = allocation.left
        self.last: tuple[float, Bidder] | None = None  # the last that was given something, and what that was worth

    def bidder(self, job: Job) -> Bidder:
        return self._bidders.get(job.id) or self._new_bidder(job)

    def run(self) -> float | None:
        rule, allocation = self._rule, self._allocation
        self._bidders = {number: rule.bidder(job, allocation) for number, job in self._running()}
        for bidder in self._bidders.values():
            self._crowd.add(bidder.bins)
        wake = self._see_waiting() if allocation.waiting_count else None
        for bidder in self._bidders.values():
            rule.set_price(bidder, allocation, self._crowd)
        self._secure(allocation.secure())
        self._late_first()
        for bidder in self._bidders.values():
            self._offer(bidder)
        self._show_heads()
        while self._offers and self._left > EPSILON:
            self._take(heapq.heappop(self._offers)[2])
        self._settle()
        return wake

    def _running(self) -> Iterable[tuple[int, Job]]:
        return ((job.id, job) for job in self._allocation.running.values())

    def _new_bidder(self, job: Job) -> Bidder:
        bidder = self._bidders[job.id] = self._rule.bidder(job, self._allocation)
        self._rule.set_price(bidder, self._allocation, self._crowd)
        return bidder

    def _show_heads(self) -> None:
        """The first waiting job of each shape, or the next, now that one before it has been given something."""
        for job in self._allocation.waiting():
            if job.id not in self._bidders:
                self._offer(self._new_bidder(job))

    # --- who comes before all others

    def _secure(self, jobs: Iterable[Job]) -> None:
        """Those that may not lose everything."""
        for job in jobs:
            bidder = self._bidders[job.id]
            bidder.given = bidder.ask.min
            self._left -= bidder.ask.min * bidder.ask.cost

    def _see_waiting(self) -> float | None:
        """Count them in: looked at now and then, and when their number is another. Returns when one will be late."""
        allocation = self._allocation
        noted, count, now = allocation.memory.get(_WAITING), allocation.waiting_count, allocation.now
        is_new = noted is not None and noted["at"] <= now < noted["at"] + _LOOK_AGAIN
        if noted is None or not is_new or abs(count - noted["jobs"]) > 1 + _OTHERS * count:
            crowd, due = Crowd(), math.inf
            for job in allocation.waiting(all_of_them=True):
                bidder = self._rule.bidder(job, allocation)
                crowd.add(bidder.bins)
                if bidder.due <= now:
                    self._late.append(bidder)
                else:
                    due = min(due, bidder.due)
            noted = {"at": now, "jobs": crowd.jobs, "bins": crowd.bins, "due": due if due < math.inf else None}
            allocation.memory[_WAITING] = noted
        self._crowd.join(Crowd(noted["jobs"], noted["bins"]), count)
        return None if noted["due"] is None else max(noted["due"], noted["at"] + _LOOK_AGAIN)

    def _late_first(self) -> None:
        """Those that have waited too long get their min, the latest first."""
        now, room = self._allocation.now, self._rule.guarded * self._allocation.slots
        for bidder in self._late:
            self._bidders[bidder.job.id] = bidder
            self._rule.set_price(bidder, self._allocation, self._crowd)
        late = sorted((one.due, number) for number, one in self._bidders.items() if one.due <= now)
        for _, number in late:
            if room > 0:
                bidder = self._bidders[number]
                room -= bidder.ask.min * bidder.ask.cost
                self._give_min(bidder)

    def _give_min(self, bidder: Bidder) -> None:
        ask = bidder.ask
        if bidder.given or ask.min * ask.cost > self._left + EPSILON:
            return
        if ask.has or self._allocation.give(bidder.job, ask.min):
            bidder.given = ask.min
            self._left -= ask.min * ask.cost

    # --- step by step

    def _offer(self, bidder: Bidder) -> None:
        if bidder.next_step:
            heapq.heappush(self._offers, (-bidder.worth, bidder.job.id, bidder))

    def _take(self, bidder: Bidder) -> None:
        """The next step, or as much of it as is left."""
        step, ask = bidder.next_step, bidder.ask
        assert step is not None
        given = min(step.workers, bidder.given + int(self._left / ask.cost + EPSILON))
        if given < ask.min or given == bidder.given:
            return
        is_starting = not ask.has and not bidder.given
        if is_starting and not self._allocation.give(bidder.job, given):
            return
        self.last = bidder.worth, bidder
        self._left -= (given - bidder.given) * ask.cost
        bidder.given = given
        if given == step.workers:
            self._offer(bidder)
        if is_starting:
            self._show_heads()

    def _settle(self) -> None:
        """What shrinks, before what grows into its place."""
        allocation = self._allocation
        for bidder in sorted(self._bidders.values(), key=lambda one: one.given - one.ask.has):
            if bidder.given:
                allocation.give(bidder.job, bidder.given)
            elif not bidder.ask.has:
                allocation.refuse(bidder.job)
