"""Packing (Gandiva): where jobs take turns on devices, two run at once if together they get more done than in turn.

Only simulations do so: a lease gives a device to one job.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import NamedTuple

from schedulearn.core.domain.ids import JobId

TRIAL = 20.0  # seconds after which it has shown what a job uses, and what a pair gets done
_Pair = frozenset[JobId]


class Candidate(NamedTuple):
    """A job that holds devices, running or suspended."""

    job: JobId
    places: Hashable  # those with equal ones can be together
    use: float  # the part of its devices that it kept busy when it was alone there


class Pairs:
    """Which suspended job runs on as the guest of which running one: at most one guest for a host.

    Those that use their devices least come together first. After a trial a pair whose speeds, each as a part of the
    job's own when it is alone, do not add up to more than 1 is parted, and not tried again.
    """

    def __init__(self) -> None:
        self.hosts: dict[JobId, JobId] = {}  # by guest
        self._trials: dict[_Pair, float] = {}  # when each ends
        self._gains: dict[_Pair, bool] = {}  # what trials have shown

    @property
    def next_verdict(self) -> float:
        return min(self._trials.values(), default=math.inf)

    def part(self, job: JobId) -> tuple[JobId, JobId] | None:
        """It is together with nobody from now on; the guest and the host that it, or its guest, has parted from."""
        guest = next((guest for guest, host in self.hosts.items() if job in (guest, host)), None)
        if guest is None:
            return None
        host = self.hosts.pop(guest)
        self._trials.pop(frozenset((guest, host)), None)
        return guest, host

    def judge(self, speed: Callable[[JobId], float], now: float) -> list[JobId]:
        """The guests of those pairs whose trial is over and has shown no gain. `speed`: as a part of that alone."""
        vain = []
        for guest, host in self.hosts.items():
            pair = frozenset((guest, host))
            if self._trials.get(pair, now + 1.0) <= now:
                del self._trials[pair]
                self._gains[pair] = speed(guest) + speed(host) > 1.0
                vain += [] if self._gains[pair] else [guest]
        return vain

    def form(self, running: Iterable[Candidate], suspended: Iterable[Candidate], now: float) -> Iterator[JobId]:
        """The guests that come to hosts now."""
        hosts: dict[Hashable, list[Candidate]] = defaultdict(list)
        taken = {*self.hosts.values()}
        for one in sorted(running, key=_least_use):
            if one.job not in taken:
                hosts[one.places].append(one)
        for guest in sorted(suspended, key=_least_use):
            free = hosts[guest.places] if guest.job not in self.hosts else []
            host = next((one for one in free if self._gains.get(frozenset((guest.job, one.job)), True)), None)
            if host:
                free.remove(host)
                self.hosts[guest.job] = host.job
                if (pair := frozenset((guest.job, host.job))) not in self._gains:
                    self._trials[pair] = now + TRIAL
                yield guest.job

    def forget(self, job: JobId) -> None:
        """It has ended."""
        self._gains = {pair: gains for pair, gains in self._gains.items() if job not in pair}


def _least_use(one: Candidate) -> tuple[float, JobId]:
    return one.use, one.job
