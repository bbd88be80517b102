"""Which job goes first on one machine, and how much of it each gets then: arithmetic on core-seconds and cores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedulearn.core.domain.ids import JobId
from schedulearn.core.policies.share.division import max_min

_CLEARLY = 0.8  # times the work that is left of another: less than that is clearly less
_SOON = 0.9  # of the time that the others need beside it: a job that needs longer sets the end


@dataclass(frozen=True, slots=True)
class Claim:
    """What a container could use."""

    job: JobId
    left: float | None  # core-seconds that it still needs; None: that is not known
    demand: float  # cores that it would use if it could
    floor: float  # cores that it gets in any case
    late: bool = False  # it has reached its target, and others have not: it gets no more than they leave


def ranked(claims: Sequence[Claim], before: Sequence[JobId]) -> list[JobId]:
    """Those of whom it is known what is left, the least first, but for the late ones.

    A job that was ahead of another stays ahead unless the other has clearly less left: estimates that waver change
    nothing.
    """
    left = {claim.job: claim.left for claim in claims if claim.left is not None and not claim.late}
    order = [job for job in before if job in left]
    for job in sorted(left.keys() - set(order), key=lambda job: (left[job], job)):
        at = next((k for k, other in enumerate(order) if left[job] < left[other]), len(order))
        order.insert(at, job)
    return _settled(order, left)


def _settled(order: list[JobId], left: Mapping[JobId, float]) -> list[JobId]:
    """Neighbours change places until none has clearly less left than the one before it."""
    at = 1
    while at < len(order):
        one, other = order[at - 1], order[at]
        if left[other] < _CLEARLY * left[one]:
            order[at - 1], order[at] = other, one
            at = max(1, at - 1)
        else:
            at += 1
    return order


def set_the_end(all_claims: Sequence[Claim], cores: float) -> list[JobId]:
    """Jobs that cannot use the whole machine, and need longer than the others do beside them, the longest first.

    If such a job waits for the others, the machine stands half idle at the end, and all is over later.
    """
    claims = [claim for claim in all_claims if not claim.late]
    total = sum(claim.left or 0.0 for claim in claims)
    found = []
    for claim in claims:
        if claim.left and 0 < claim.demand < cores:
            needs, others = claim.left / claim.demand, (total - claim.left) / (cores - claim.demand)
            if needs >= _SOON * others:
                found.append((-needs, claim.job))
    return [job for _, job in sorted(found)]


def amounts(claims: Sequence[Claim], order: Sequence[JobId], cores: float) -> dict[JobId, float]:
    """Each gets its floor, one that cannot be ranked its equal share, and then the first of the order all that it can
    use, then the next, the late ones after all others. Nothing is left that one of them could use."""
    fair = max_min(cores, [min(claim.demand, claim.floor) if claim.late else claim.demand for claim in claims])
    ranks = set(order)
    given = {
        claim.job: min(claim.demand, claim.floor if claim.job in ranks else max(claim.floor, share))
        for claim, share in zip(claims, fair, strict=True)
    }
    rest = max(0.0, cores - sum(given.values()))
    demands = {claim.job: claim.demand for claim in claims}
    for job in order:
        more = min(rest, demands[job] - given[job])
        given[job] += more
        rest -= more
    for late in (False, True):
        others = [claim.job for claim in claims if claim.job not in ranks and claim.late is late]
        for job, more in zip(others, max_min(rest, [demands[job] - given[job] for job in others]), strict=True):
            given[job] += more
            rest -= more
    return given
