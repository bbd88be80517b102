"""When will waiting jobs start? The same `decide` run ahead in time, on copies, with estimated durations."""

import heapq
from collections.abc import Callable, Iterable

from schedulearn.core.control.decide import POOLS, decide
from schedulearn.core.control.ledger import Ledger
from schedulearn.core.control.running_jobs import RunningJobs
from schedulearn.core.control.state import State
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job, Placement
from schedulearn.core.domain.shape import Shape
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.core.policies.stages import Policy

_MOST_STEPS = 300  # beyond so many ends the guess is worth nothing, and costs time
_MOST_LOOKS = 20_000  # at shapes, or kinds of them, for the same reason

Remaining = Callable[[Job], Estimate | None]  # how long a job, running or waiting, still runs once it runs


def forecast_starts(
    state: State, policy: Policy, jobs: Iterable[Job], now: float, remaining: Remaining
) -> dict[JobId, Estimate]:
    """Seconds until these jobs start, and those that start before them, where enough is known.

    No running job is interrupted in it.
    """
    ledger = Ledger(n.node for n in state.ledger)
    held: dict[JobId, tuple[Shape, tuple[Placement, ...]]] = {}
    ends: list[tuple[float, float, JobId]] = []  # (expected end, doubt, job)

    def runs(start: float, other: Job, placements: tuple[Placement, ...], cores: int) -> None:
        taken, whole = _shapes(other, cores)
        held[other.id] = (whole, placements)
        for placement in placements:
            ledger.take(taken, placement)
        if estimate := remaining(other):  # one whose end nobody can guess simply stays where it is
            doubt = (estimate.high - estimate.low) / 2
            heapq.heappush(ends, (start + estimate.expected, doubt, other.id))

    for other in state.jobs.values():
        for placement in other.suspended_at:
            ledger.take(Shape.of(other.spec).memory, Placement(placement.node))
        if other.placements:
            runs(now, other, other.placements, other.cores)
    queue = state.queue.copy()
    nobody = {pool: RunningJobs() for pool in POOLS}
    missing, starts = {job.id for job in jobs}, dict[JobId, Estimate]()
    time, doubt = now, 0.0
    for _ in range(min(_MOST_STEPS, _MOST_LOOKS // max(1, queue.variety))):
        decision = decide(policy, queue, ledger, nobody, time, state.memory)
        for grant in decision.grants:
            wait = time - now
            starts[grant.job] = Estimate(max(0.0, wait - doubt), wait, wait + doubt)
            missing.discard(grant.job)
            queue.remove(grant.job)
            runs(time, state.jobs[grant.job], grant.placements, grant.cores)
        if not ends or not missing:
            break
        time, doubt, ended = heapq.heappop(ends)
        shape, placements = held.pop(ended)
        for placement in placements:
            ledger.give_back(shape, placement)
    return starts


def _shapes(job: Job, cores: int) -> tuple[Shape, Shape]:
    """What it takes when it runs, and what it leaves: the memory of one that was suspended was taken before."""
    whole = Shape.of(job.spec)
    if cores and not job.suspended_at:
        whole = whole.with_cores(cores)
        return whole, whole
    return job.shape, whole
