"""What a running job was promised beyond the workers that it has: it grows as soon as that is really free."""

from schedulearn.core.control.book import beyond
from schedulearn.core.control.state import State
from schedulearn.core.domain.job import Attempt, Job, Placement, Worker
from schedulearn.core.domain.resources import CPUS
from schedulearn.core.domain.shape import Shape


def placement_of(worker: Worker) -> Placement:
    return Placement(worker.node, worker.devices)


def missing(job: Job, attempt: Attempt) -> list[Placement]:
    """The placements that were promised to it, and that no worker of it has yet."""
    return beyond(job.placements, map(placement_of, attempt.crew))


def give_up(state: State, job: Job) -> None:
    """It does not grow after all."""
    if job.id not in state.growing:
        return
    del state.growing[job.id]
    attempt = state.attempts[job.id]
    if job.cores:
        state.promise(
            job, job.placements, fixed=job.id not in state.adjustable[CPUS], cores=cores_held(state, job, attempt)
        )
        state.stale = state.slots_freed = True
    else:
        state.shed(job, missing(job, attempt))


def cores_held(state: State, job: Job, attempt: Attempt) -> int:
    """The whole cores of its lease, if it was given such: nothing else makes a lease another than the spec says."""
    holds = attempt.workers[0].holds if len(attempt.workers) == 1 else None
    held, shape = holds[CPUS] if holds else 0.0, Shape.of(job.spec)
    counted = shape.least_cores and (state.counts_cores or held != shape.slots)
    return int(held) if counted and held >= shape.least_cores else 0
