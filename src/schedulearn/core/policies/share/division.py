"""Cores divided among containers that compete as equals, each up to a cap of its own."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from schedulearn.core.domain.resources import EPSILON

_FULL_USE = 0.9  # a container that uses less than this part of what it could needs no more than it uses
_MORE = 1.05  # times what it needed: it needs more now


def max_min(capacity: float, wants: Sequence[float]) -> list[float]:
    """Each gets what it wants up to an equal share; what one leaves is shared among the others."""
    shares = [0.0] * len(wants)
    left = capacity
    order = sorted(range(len(wants)), key=lambda i: wants[i])
    for rank, i in enumerate(order):
        shares[i] = min(wants[i], left / (len(wants) - rank))
        left -= shares[i]
    return shares


def floors(capacity: float, least: Sequence[float], most: Sequence[float], part: float) -> list[float]:
    """Below this no container is limited: what its lease guarantees, and `part` of the capacity where that fits.

    The sum is never more than the capacity, as long as the leases fit.
    """
    wanted = [max(low, min(high, part * capacity)) for low, high in zip(least, most, strict=True)]
    extra, room = sum(wanted) - sum(least), max(0.0, capacity - sum(least))
    shrink = 1.0 if extra <= room else room / extra
    return [low + shrink * (want - low) for low, want in zip(least, wanted, strict=True)]


def give_out_rest(capacity: float, limits: Sequence[float], demands: Sequence[float]) -> list[float]:
    """Raise limits that hold one back while others leave cores unused under theirs."""
    used = sum(min(limit, demand) for limit, demand in zip(limits, demands, strict=True))
    if used >= capacity - EPSILON:
        return list(limits)
    lacking = [max(0.0, demand - limit) for limit, demand in zip(limits, demands, strict=True)]
    more = max_min(capacity - used, lacking)
    return [limit + extra for limit, extra in zip(limits, more, strict=True)]


def keep_room(capacity: float, limits: Sequence[float], least: Sequence[float]) -> list[float]:
    """Lower the limits of others where equals in competition would leave one less than `least`.

    `least` must fit, and no limit be below its own.
    """
    shares = max_min(capacity, limits)
    if not (short := _below(shares, least, range(len(limits)))):
        return list(limits)
    others = list(range(len(limits)))
    while more := _below(shares, least, others):
        short |= more
        others = [i for i in others if i not in short]
        left = max(0.0, capacity - sum(least[i] for i in short))
        shares = list(least)
        for i, share in zip(others, max_min(left, [limits[i] for i in others]), strict=True):
            shares[i] = share
    return shares


def _below(shares: Sequence[float], least: Sequence[float], among: Iterable[int]) -> set[int]:
    return {i for i in among if shares[i] < least[i] - EPSILON}


def demands(
    capacity: float, limits: Sequence[float], uses: Sequence[float], before: Sequence[float | None]
) -> list[float | None]:
    """What each would use if it could, by what it has used while none came or went; None: as much as it may.

    Equals in competition all get the same unless they want less, or are limited. So one that uses clearly less than
    its limit, and less than another does or while cores are idle, wants no more than that. It holds (`before`) until it
    uses more: none is limited to what it wants, so that it can.
    """
    highest = math.inf if sum(uses) < _FULL_USE * capacity else max(uses, default=0.0)
    found: list[float | None] = []
    for use, limit, known in zip(uses, limits, before, strict=True):
        if use < _FULL_USE * min(limit, highest):
            found.append(use)
        else:
            found.append(known if known is not None and use < _MORE * known else None)
    return found


@dataclass(frozen=True, slots=True)
class Bounds:
    """What limits on one machine must keep to. Amounts are cores, one for each container."""

    cores: float
    least: Sequence[float]  # below this no container is limited
    most: Sequence[float]
    limits: Sequence[float]  # in force
    demands: Sequence[float]
    late: Sequence[bool]  # whether it gets its floor, and more only of what the others leave

    def bound(self, limits: Sequence[float]) -> list[float]:
        return [max(low, min(high, limit)) for low, high, limit in zip(self.least, self.most, limits, strict=True)]

    def fit(self, limits: Sequence[float]) -> list[float]:
        """None is below its floor, nothing is left unused that one of them wants, and each can get its floor."""
        given_out = give_out_rest(self.cores, self.bound(limits), self._first_wants())
        given_out = give_out_rest(self.cores, given_out, self.demands)
        needs = [min(low, demand) for low, demand in zip(self.least, self.demands, strict=True)]
        return self.bound(keep_room(self.cores, given_out, needs))

    def _first_wants(self) -> list[float]:
        rows = zip(self.least, self.demands, self.late, strict=True)
        return [min(low, demand) if late else demand for low, demand, late in rows]
