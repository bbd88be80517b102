"""What running workers may use: changed when somebody asks, and what came of it written down."""

from schedulearn.control.state import State
from schedulearn.domain import events as ev
from schedulearn.domain.commands import SetLimits
from schedulearn.domain.job import Job
from schedulearn.domain.units import format_size
from schedulearn.domain.usage import Limits


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


def in_words(limits: Limits) -> str:
    cpus = "all cores" if limits.cpus is None else f"{limits.cpus:g} cores"
    weight = "" if limits.weight is None else f", weight {limits.weight}"
    memory = "" if limits.memory is None else f", {format_size(limits.memory)} of memory"
    return cpus + weight + memory
