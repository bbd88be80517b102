"""Is a resize or a move worth its restart? Only growth is asked: a job shrinks for the sake of others."""

import math

from schedulearn.core.control import live_resize
from schedulearn.core.control.allocation import Decision, Grant
from schedulearn.core.control.state import State
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.spec import Launcher
from schedulearn.core.domain.states import JobState
from schedulearn.core.policies.stages import Facts

PATIENCE = 30.0  # seconds between two re-allocations of a job
HOT_COST, HOT_PATIENCE = 1.0, 5.0  # the same, in seconds, for a job that changes its size without a restart
MOVING = 0.01  # the part of its time, so far and to come, that a job may spend on moving


def drop_what_does_not_pay(state: State, decision: Decision, now: float) -> None:
    """Take growth out of the plan that comes too soon or costs more than it brings. Inert where restarts are free."""
    kept = []
    for grant in decision.grants:
        job = state.jobs.get(grant.job)
        if job is None or job.id not in state.attempts or not 0 < job.workers < len(grant.placements):
            kept.append(grant)
            continue
        if job.spec.resizes_live and job.state is JobState.RUNNING:
            again = _hot_again(state, job, grant, now)
        else:
            again = _worth(state, job, grant, state.facts.restart_cost(job), PATIENCE, now)
        if again is None:
            kept.append(grant)
        else:
            decision.wake_at = min(decision.wake_at or math.inf, again)
    decision.grants = kept


def _worth(state: State, job: Job, grant: Grant, cost: float, patience: float, now: float) -> float | None:
    """None if it pays, else when to ask again: more may be known of it by then."""
    is_time = state.slots_freed or now >= job.resized_at + patience
    if cost <= 0 or (is_time and _pays(job, grant, cost, now, state.facts)):
        return None
    return now + patience


def _hot_again(state: State, job: Job, grant: Grant, now: float) -> float | None:
    """The same for one that grows without a restart."""
    at = live_resize.may_grow_at(state, state.attempts[job.id])
    if now < at:
        return at
    if job.spec.launcher is Launcher.HOROVOD and len({placement.node for placement in grant.placements}) > 1:
        return now + PATIENCE  # all of them must be on one node
    return _worth(state, job, grant, min(HOT_COST, state.facts.restart_cost(job)), HOT_PATIENCE, now)


def pays_to_move(job: Job, now: float, facts: Facts) -> bool:
    """Whether a running job is better stopped and started somewhere else than suspended where it is."""
    if not job.is_preemptible or job.state is not JobState.RUNNING:
        return False
    return facts.restart_cost(job) <= MOVING * min(now - job.resized_at, facts.remaining(job, now))


def _pays(job: Job, grant: Grant, cost: float, now: float, facts: Facts) -> bool:
    speedup, want = facts.speedup(job), job.shape.workers.want
    remaining = facts.remaining(job, now)
    if not math.isfinite(remaining):
        return speedup(len(grant.placements)) > speedup(job.workers)
    as_it_is = remaining * speedup(want) / speedup(job.workers)
    resized = remaining * speedup(want) / speedup(len(grant.placements)) + cost
    return resized < as_it_is
