"""Jobs that share the cores of a machine slow each other down: the rate of each depends on its co-tenants."""

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from schedulearn.domain.ids import JobId
from schedulearn.domain.node import Node
from schedulearn.domain.resources import CPUS
from schedulearn.sim.model import JobModel


class Sharing(Protocol):
    """How fast jobs go that are on one node together."""

    def factors(self, node: Node, jobs: Sequence[JobModel]) -> Sequence[float]:
        """For each job its speed there, relative to being alone; 1: as fast as alone."""


def max_min(capacity: float, wants: Sequence[float]) -> list[float]:
    """Everybody gets what it wants up to an equal share; what one leaves is shared among the others."""
    shares = [0.0] * len(wants)
    left = capacity
    order = sorted(range(len(wants)), key=lambda i: wants[i])
    for rank, i in enumerate(order):
        shares[i] = min(wants[i], left / (len(wants) - rank))
        left -= shares[i]
    return shares


class SharedCpu:
    """Cores are shared max-min under caps. A job says how many cores it keeps busy when it is alone."""

    def __init__(self, cap: Callable[[JobId], float] = lambda _: math.inf) -> None:
        """`cap` is the present limit of a job in cores; what a share policy sets."""
        self._cap = cap

    def factors(self, node: Node, jobs: Sequence[JobModel]) -> list[float]:
        alone = [model.trace.cpus * len(model.job.spots) for model in jobs]
        wants = [min(cpus, self._cap(model.job.id)) for cpus, model in zip(alone, jobs, strict=True)]
        shares = max_min(node.capacity[CPUS], wants)
        return [share / cpus if cpus else 1.0 for share, cpus in zip(shares, alone, strict=True)]
