"""What a running job was promised beyond the workers that it has: it grows as soon as that is really free."""

from collections import Counter
from collections.abc import Iterable, Sequence

from schedulearn.core.control.state import State
from schedulearn.core.domain.job import Attempt, Job, Spot, Worker
from schedulearn.core.domain.resources import CPUS
from schedulearn.core.domain.shape import Shape


def spot_of(worker: Worker) -> Spot:
    return Spot(worker.node, worker.devices)


def beyond(spots: Iterable[Spot], known: Iterable[Spot]) -> list[Spot]:
    """Those that are not among the known ones; of equal ones as many as are too many."""
    left, found = Counter(known), []
    for spot in spots:
        if left[spot]:
            left[spot] -= 1
        else:
            found.append(spot)
    return found


def missing(job: Job, attempt: Attempt) -> list[Spot]:
    """The spots that were promised to it, and that no worker of it has yet."""
    return beyond(job.spots, map(spot_of, attempt.crew))


def give_up(state: State, job: Job) -> None:
    """It does not grow after all."""
    if job.id not in state.growing:
        return
    del state.growing[job.id]
    attempt = state.attempts[job.id]
    if job.cores:
        state.promise(job, job.spots, fixed=job.id not in state.holders[CPUS], cores=cores_held(state, job, attempt))
        state.stale = state.slots_freed = True
    else:
        shed(state, job, missing(job, attempt))


def cores_held(state: State, job: Job, attempt: Attempt) -> int:
    """The whole cores of its lease, if it was given such: nothing else makes a lease another than the spec says."""
    lease = state.leases.get(attempt.workers[0].id) if len(attempt.workers) == 1 else None
    held, shape = lease.amounts[CPUS] if lease else 0.0, Shape.of(job.spec)
    counted = shape.least_cores and (state.counts_cores or held != shape.slots)
    return int(held) if counted and held >= shape.least_cores else 0


def shed(state: State, job: Job, spots: Sequence[Spot]) -> None:
    """The job no longer needs these of its spots. Who has them is another matter."""
    state.ledger.give_back_all(job.shape, spots)
    _have(state, job, beyond(job.spots, spots))
    state.stale = state.slots_freed = True


def gain(state: State, job: Job, spots: Sequence[Spot]) -> None:
    """It is promised these, too. They must be free."""
    state.ledger.take_checked(job.shape, spots)
    _have(state, job, [*job.spots, *spots])


def _have(state: State, job: Job, spots: Sequence[Spot]) -> None:
    job.spots = tuple(spots)
    holders = state.holders[job.shape.pool]
    if job.id in holders:
        holders[job.id] = job
