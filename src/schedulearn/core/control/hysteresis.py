"""Is a resize or a move worth its restart? Only growth is asked: a job shrinks for the sake of others."""

import math

from schedulearn.core.control import live_resize
from schedulearn.core.control.state import State
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.spec import Launcher
from schedulearn.core.domain.states import JobState
from schedulearn.core.policies.stages import Facts

PATIENCE = 30.0  # seconds between two re-allocations of a job
HOT_COST, HOT_PATIENCE = 1.0, 5.0  # the same, in seconds, for a job that changes its size without a restart
MOVING = 0.01  # the part of its time, so far and to come, that a job may spend on moving


class Hysteresis:
    """Asked before running jobs are given more. Inert where restarts are free."""

    def __init__(self, state: State, now: float) -> None:
        self._state, self._now = state, now

    def again(self, job: Job, workers: int) -> float | None:
        """None: growing to so many pays now; else when to ask again, as more may be known of it by then."""
        state = self._state
        if job.id not in state.attempts:
            return None  # it has not started yet
        if not (job.spec.resizes_live and job.state is JobState.RUNNING):
            return self._worth(job, workers, state.facts.restart_cost(job), PATIENCE)
        at = live_resize.may_grow_at(state, state.attempts[job.id])
        if self._now < at:
            return at
        return self._worth(job, workers, min(HOT_COST, state.facts.restart_cost(job)), HOT_PATIENCE)

    def again_there(self, job: Job, nodes: int) -> float | None:
        """The same, once it is known on how many nodes it would be."""
        on_one = job.spec.launcher is Launcher.HOROVOD and job.spec.resizes_live and job.state is JobState.RUNNING
        return self._now + PATIENCE if on_one and nodes > 1 else None

    def _worth(self, job: Job, workers: int, cost: float, patience: float) -> float | None:
        is_time = self._state.slots_freed or self._now >= job.resized_at + patience
        if cost <= 0 or (is_time and _pays(job, workers, cost, self._now, self._state.facts)):
            return None
        return self._now + patience


def pays_to_move(job: Job, now: float, facts: Facts) -> bool:
    """Whether a running job is better stopped and started somewhere else than suspended where it is."""
    if not job.is_preemptible or job.state is not JobState.RUNNING:
        return False
    return facts.restart_cost(job) <= MOVING * min(now - job.resized_at, facts.remaining(job, now))


def _pays(job: Job, workers: int, cost: float, now: float, facts: Facts) -> bool:
    speedup, want = facts.speedup(job), job.shape.workers.want
    remaining = facts.remaining(job, now)
    if not math.isfinite(remaining):
        return speedup(workers) > speedup(job.workers)
    as_it_is = remaining * speedup(want) / speedup(job.workers)
    resized = remaining * speedup(want) / speedup(workers) + cost
    return resized < as_it_is
