"""What running workers may use: changed when somebody asks, and what came of it written down."""

import math

from schedulearn.core.control.state import State
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.commands import SetLimits
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.states import JobState
from schedulearn.core.domain.units import format_count, format_size
from schedulearn.core.domain.usage import Limits

_FAR_OFF = 2.0  # times as many threads as the limit allows, or as few: closer than that they do well enough
_TOO_MANY = 0.1  # of the time is lost with too many of such threads: unlike OpenMP's, they do not spin while they wait


def set_cpus(state: State, job: Job) -> None:
    """Hold the workers that run to the job's present limit; those that start later are started with it."""
    attempt = state.attempts.get(job.id)
    for worker in attempt.running if attempt else ():
        state.command(SetLimits(worker.id, worker.node, Limits(cpus=job.cpus)))


def limits_set(state: State, event: ev.LimitsSet) -> None:
    job, attempt = state.jobs.get(event.worker.job), state.attempts.get(event.worker.job)
    if job is None or attempt is None or attempt.id != event.worker.of:
        return
    asked, worker = event.limits, attempt.workers[event.worker.rank]
    if event.problem:
        kind, cause = "limits_refused", f"worker {worker.id} keeps its limits: {event.problem}"
    else:
        kind, cause = "limits_set", f"worker {worker.id} may use {in_words(asked)}"
    data: dict[str, object] = {"cpus": asked.cpus, "weight": asked.weight, "memory": asked.memory}
    state.record(event.at, kind, cause, job, node=worker.node, data=data)


def restart_for_threads(state: State, event: ev.LimitsSet) -> str:
    """Why a job whose threads cannot follow its limit should save, stop and begin again; "" if it should not."""
    job, attempt = state.jobs.get(event.worker.job), state.attempts.get(event.worker.job)
    has, cpus = event.threads_fixed, event.limits.cpus
    if job is None or attempt is None or attempt.id != event.worker.of or event.problem or not has or cpus is None:
        return ""
    wants = max(1, math.floor(cpus))
    fewer, more = sorted((has, wants))
    if job.state is not JobState.RUNNING or not job.is_preemptible or more < _FAR_OFF * fewer:
        return ""
    remaining = state.facts.remaining(job, event.at)
    gain = 1 - has / wants if has < wants else _TOO_MANY  # with more threads: at best
    if math.isfinite(remaining) and remaining * gain <= state.facts.restart_cost(job):
        return ""
    return f"starts again with {format_count(wants, 'thread')} in place of {has}: they cannot change while it runs"


def in_words(limits: Limits) -> str:
    cpus = "all cores" if limits.cpus is None else format_count(limits.cpus, "core")
    weight = "" if limits.weight is None else f", weight {limits.weight}"
    memory = "" if limits.memory is None else f", {format_size(limits.memory)} of memory"
    return cpus + weight + memory
