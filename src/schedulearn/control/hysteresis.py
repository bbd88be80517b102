"""Is a resize or a move worth its restart? Only growth is asked: a job shrinks for the sake of others."""

import math

from schedulearn.control.contest import Decision, Grant
from schedulearn.control.state import State
from schedulearn.domain.job import Job
from schedulearn.domain.states import JobState
from schedulearn.policies.stages import Facts

PATIENCE = 30.0  # seconds between two re-allocations of a job
MOVING = 0.01  # the part of its time, so far and to come, that a job may spend on moving


def drop_what_does_not_pay(state: State, decision: Decision, now: float) -> None:
    """Take growth out of the plan that comes too soon or costs more than it brings. Inert where restarts are free."""
    kept = []
    for grant in decision.grants:
        job = state.jobs.get(grant.job)
        if job is None or job.id not in state.attempts or not 0 < job.workers < len(grant.spots):
            kept.append(grant)
            continue
        cost = state.facts.restart_cost(job)
        if cost <= 0 or (_is_time(state, job, now) and _pays(job, grant, cost, now, state.facts)):
            kept.append(grant)
        else:  # more may be known of it by then
            decision.wake_at = min(decision.wake_at or math.inf, now + PATIENCE)
    decision.grants = kept


def pays_to_move(job: Job, now: float, facts: Facts) -> bool:
    """Whether a running job is better stopped and started somewhere else than suspended where it is."""
    if not job.gives_way or job.state is not JobState.RUNNING:
        return False
    return facts.restart_cost(job) <= MOVING * min(now - job.resized_at, facts.remaining(job, now))


def _is_time(state: State, job: Job, now: float) -> bool:
    return state.slots_freed or now >= job.resized_at + PATIENCE


def _pays(job: Job, grant: Grant, cost: float, now: float, facts: Facts) -> bool:
    speedup, want = facts.speedup(job), job.shape.workers.want
    remaining = facts.remaining(job, now)
    if not math.isfinite(remaining):
        return speedup(len(grant.spots)) > speedup(job.workers)
    as_it_is = remaining * speedup(want) / speedup(job.workers)
    resized = remaining * speedup(want) / speedup(len(grant.spots)) + cost
    return resized < as_it_is
