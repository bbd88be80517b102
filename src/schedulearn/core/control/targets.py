"""What follows when a job's training is good enough: it ends, or from then on others go first."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from schedulearn.core.control.state import State
from schedulearn.core.control.stopping import stop_attempt
from schedulearn.core.domain.events import TargetReached
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.spec import STOP, JobSpec, Target
from schedulearn.core.domain.states import JobState, StopReason


def target_reached(state: State, event: TargetReached) -> None:
    job = state.jobs.get(event.job)
    if job is None or job.state is not JobState.RUNNING or job.reached_at is not None:
        return
    if job.spec.target != event.target:
        return  # another one was set since
    job.reached_at = event.at
    state.touch(job)
    cause = f"its target is reached: {job.spec.metric.name} is {event.value:g}, {in_words(job.spec)} was asked for"
    data: dict[str, object] = {
        "metric": job.spec.metric.name,
        "goal": job.spec.metric.goal,
        "target": event.target.value,
        "then": event.target.then,
        "value": event.value,
        "values": list(event.values),
    }
    state.record(event.at, "target_reached", cause, job, data=data)
    if event.target.then == STOP:
        stop_attempt(state, job, StopReason.TARGET, event.at, cause)
    else:
        state.rank_anew(job, event.at)


def set_target(job: Job, asked: Mapping[str, Any] | None) -> None:
    """Another target, or none; whether it is reached is found out anew."""
    job.spec = replace(job.spec, target=Target(**asked) if asked else None)
    job.reached_at = None


def in_words(spec: JobSpec) -> str:
    """`at most 0.05`; nothing without a target."""
    bound = "at most" if spec.metric.goal == "min" else "at least"
    return f"{bound} {spec.target.value:g}" if spec.target else ""
