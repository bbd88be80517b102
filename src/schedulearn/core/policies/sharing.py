"""The share stage: how much CPU each container of one machine may use, and what it is given to decide that.

Each machine has a loop of its own (`core/control/share.py`), live and simulated.
"""

import math
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.units import format_count
from schedulearn.core.policies.notes import Note

SECONDS_EPSILON = 1e-6  # so are times


@dataclass(frozen=True, slots=True)
class Container:
    """The workers of one job on the machine. Amounts are cores."""

    job: JobId
    arrived_at: float  # tells a container from an earlier one of the same job
    least: float  # what its lease guarantees
    most: float  # what its user lets it use at most, and no more than the machine has
    limit: float | None = None  # in force; None: none
    reached: bool = False  # its target, and it yields: it gets its floor, and what the others leave


class Left(Protocol):
    """How much is left to do, with the range in which it will probably lie."""

    @property
    def low(self) -> float: ...

    @property
    def expected(self) -> float: ...

    @property
    def high(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Values:
    """Those of a metric that came in some time."""

    first: float
    last: float
    count: int


class ShareNode(Protocol):
    """One machine as a share stage sees it, at one moment: what FlowCon's worker and container monitors tell."""

    @property
    def now(self) -> float: ...

    @property
    def name(self) -> NodeName: ...

    @property
    def cores(self) -> float:
        """What the machine has for jobs."""

    def containers(self) -> Sequence[Container]:
        """Those that run, in the order of their arrival."""

    def cpu_seconds(self, job: JobId) -> float:
        """Core-seconds that it has used since it arrived: a counter."""

    def other_use(self, job: JobId) -> Mapping[str, float]:
        """What it uses beside CPU, as far as that is measured: `memory`, the MB that it holds; `block` and `network`,
        the MB that it has read and written since it arrived."""

    def evaluation(self, job: JobId, since: float) -> float | None:
        """The mean of the metric values that came after `since` until now; None: it was silent."""

    def values(self, job: JobId, since: float) -> Values | None:
        """The metric values that came after `since` until now; None: it was silent."""

    def left(self, job: JobId) -> Left | None:
        """Core-seconds that it still needs, by what it has reported and used so far; None: that is not known."""


@dataclass(frozen=True, slots=True)
class Shares:
    """What a share stage answers."""

    limits: Mapping[JobId, float] = field(default_factory=dict)  # cores, only of those that change; math.inf: none
    wake_at: float | None = None  # when to be asked again although no job has come or gone
    notes: Sequence[Note] = ()  # every change of a list or a limit, with its numbers
    growth: Mapping[JobId, float] = field(default_factory=dict)  # growth efficiency, of those measured this time


class Share(Protocol):
    """How much CPU does each container on one shared machine get?

    Asked for a machine when a container has arrived or left there, at once, and at `wake_at`. `memory` is the
    stage's own for this machine: plain JSON, kept over restarts. Put new values in it; do not change old ones in place.
    """

    def share(self, node: ShareNode, memory: MutableMapping[str, Any]) -> Shares: ...


def in_cores(limit: float | None) -> str:
    """A limit in words."""
    return "none" if limit is None or math.isinf(limit) else format_count(limit, "core")
