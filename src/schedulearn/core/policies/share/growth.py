"""What FlowCon keeps of each container: how much its training still gains for the CPU that it uses, and its list."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

from schedulearn.core.domain.ids import JobId
from schedulearn.core.policies.sharing import SECONDS_EPSILON, Container, ShareNode

_HELD = "memory"  # what is held, not moved
_LEAST_USE = 1e-3  # of the machine: less than this tells nothing of what a core brings
_SAME = 1e-9  # relative: values closer than that are equal but for rounding


class List(StrEnum):
    NEW = "NL"  # new, or growing
    WATCHING = "WL"
    COMPLETING = "CL"


_NEXT = {List.NEW: List.WATCHING, List.WATCHING: List.COMPLETING, List.COMPLETING: List.COMPLETING}


@dataclass(frozen=True, slots=True)
class Interval:
    """One interval of a container, with all that its growth follows from."""

    seconds: float
    cores: float  # in use, on average
    before: float  # the metric at its beginning, as it was reported: a value, or the mean of the interval before
    after: float
    lowest: float  # of all such means so far
    highest: float
    growth: float
    others: Mapping[str, float] = field(default_factory=dict)  # likewise, over other resources: a MB, or a MB a second

    @property
    def data(self) -> dict[str, object]:
        return asdict(self)


@dataclass(slots=True)
class Watched:
    """A container as it is remembered from one look to the next."""

    arrived: float
    since: float  # when the interval under way began
    cpu: float = 0.0  # its counter then
    list: List = List.NEW
    value: float | None = None  # the metric's mean over the last interval that had one
    lowest: float = math.inf
    highest: float = -math.inf
    growth: float | None = None  # None: it has not two intervals of data yet
    looked: float = 0.0  # when its use was last looked at: at the last round, or when a container came or went
    looked_cpu: float = 0.0
    demand: float | None = None  # cores that it would use if it could; None: as many as it may
    way: int = 0  # the last change of its limit: 1 up, -1 down
    turns: int = 0  # how often that has turned round
    wishes: int = 0  # rounds in a row in which it should have turned again
    reached: bool = False  # its target: others go first
    moved: dict[str, float] = field(default_factory=dict)  # MB that it had read and written when the interval began

    @classmethod
    def new(cls, container: Container) -> "Watched":
        at = container.arrived_at
        return cls(arrived=at, since=at, looked=at)

    @classmethod
    def of(cls, data: dict[str, Any]) -> "Watched":
        bounds = {name: data[name] if data[name] is not None else default for name, default in _UNBOUND.items()}
        return cls(**{**data, **bounds, "list": List(data["list"])})

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, which has no infinity."""
        bounds = {name: getattr(self, name) if math.isfinite(getattr(self, name)) else None for name in _UNBOUND}
        return {**{name: getattr(self, name) for name in _NAMES}, **bounds, "list": str(self.list)}

    def look(self, node: ShareNode, job: JobId) -> tuple[float, float]:
        """For how long its use was counted since the last look, and the cores that it used."""
        seconds, counter = node.now - self.looked, node.cpu_seconds(job)
        cores = max(0.0, counter - self.looked_cpu) / seconds if seconds > SECONDS_EPSILON else 0.0
        self.looked, self.looked_cpu = node.now, counter
        return seconds, cores

    def measure_points(self, node: ShareNode, job: JobId) -> Interval | None:
        """Its growth since the last run, by the latest value then and now, as a part of the largest that it has shown.

        That of a newcomer is since its arrival, and from the first value that it has shown. None at its only value so
        far, and where no new one came: it is measured over longer then.
        """
        values = node.values(job, self.since) if node.now - self.since > SECONDS_EPSILON else None
        if values is None:
            return None
        if self.value is None and values.count > 1 and math.isfinite(values.first):
            self.value = self.lowest = self.highest = values.first
        return self._measured(node, job, values.last, by_range=False)

    def measure_means(self, node: ShareNode, job: JobId, itval: float) -> Interval | None:
        """Its growth over the interval that ends now; None if that is not over, was silent, or is the first.

        An interval without a new value goes on: a job that reports seldom is measured over longer ones.
        """
        value = node.evaluation(job, self.since) if node.now - self.since >= itval - SECONDS_EPSILON else None
        return None if value is None else self._measured(node, job, value, by_range=True)

    def _measured(self, node: ShareNode, job: JobId, value: float, *, by_range: bool) -> Interval | None:
        if not math.isfinite(value):
            return None
        seconds, counter = node.now - self.since, node.cpu_seconds(job)
        used, before = max(0.0, counter - self.cpu), self.value
        self.lowest, self.highest = min(self.lowest, value), max(self.highest, value)
        uses = {} if by_range else self._other_use(node, job, seconds)
        self.since, self.cpu, self.value = node.now, counter, value
        if before is None:
            return None
        gain = self._gain(before, value) if by_range else self._gain_of_largest(before, value)
        self.growth = gain / seconds / max(_LEAST_USE, used / seconds / node.cores)
        others = {} if by_range else {name: gain / seconds / mb for name, mb in uses.items() if mb > 0}
        return Interval(seconds, used / seconds, before, value, self.lowest, self.highest, self.growth, others)

    def _other_use(self, node: ShareNode, job: JobId, seconds: float) -> dict[str, float]:
        """MB held, and MB a second moved, since the interval began; which ends."""
        now = node.other_use(job)
        before, self.moved = self.moved, {name: mb for name, mb in now.items() if name != _HELD}
        moved = {name: (mb - before.get(name, 0.0)) / seconds for name, mb in self.moved.items()}
        return moved | ({_HELD: now[_HELD]} if _HELD in now else {})

    def _gain_of_largest(self, before: float, after: float) -> float:
        """Where the unit does not matter, but the zero does: 0.2 of a loss of 2 is more than of one of 10."""
        largest = max(abs(self.lowest), abs(self.highest))
        return 0.0 if largest == 0.0 else abs(after / largest - before / largest)

    def _gain(self, before: float, after: float) -> float:
        """On the job's own scale, from the lowest to the highest seen: neither its unit nor its zero matters."""
        highest, lowest = self.highest / 2, self.lowest / 2  # halves: the difference of any two is a number
        span = highest - lowest
        return 0.0 if span <= _SAME * max(abs(highest), abs(lowest)) else abs(after / 2 - before / 2) / span

    def move(self, alpha: float) -> List:
        """To the list where its growth belongs; returns the one where it was."""
        assert self.growth is not None
        was, self.list = self.list, _NEXT[self.list] if self.growth < alpha else List.NEW
        return was


_NAMES = [each.name for each in fields(Watched)]  # `asdict` would copy every value, and take most of a round's time
_UNBOUND = {"lowest": math.inf, "highest": -math.inf}
