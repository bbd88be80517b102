"""From a decision to leases, attempts and commands."""

from schedulearn.control.decide import Decision, Grant
from schedulearn.control.state import State
from schedulearn.domain.commands import StartAttempt
from schedulearn.domain.errors import BadPlan
from schedulearn.domain.ids import AttemptId, WorkerId
from schedulearn.domain.job import Attempt, Job, Lease, Worker
from schedulearn.domain.node import NodeState
from schedulearn.domain.states import JobState, Trigger


def check(state: State, decision: Decision) -> None:
    """Refuse a plan that breaks an invariant, before anything is changed. Looks only at what changes."""
    seen = set()
    for grant in decision.grants:
        job = state.jobs.get(grant.job)
        if job is None or job.state is not JobState.QUEUED or grant.job in seen:
            raise BadPlan(f"job {grant.job} cannot start now")
        seen.add(grant.job)
        workers = job.shape.workers
        if not workers.min <= len(grant.spots) <= workers.max:
            raise BadPlan(f"job {grant.job} got {len(grant.spots)} workers, allowed are {workers.min}..{workers.max}")
        for name, devices in grant.spots:
            node = state.ledger.node(name)
            if node is None or node.node.state is not NodeState.UP:
                raise BadPlan(f"job {grant.job} cannot start on {name}: it takes no jobs")
            if len(devices) != job.shape.gpus:
                raise BadPlan(f"job {grant.job} got {len(devices)} devices on {name}, it needs {job.shape.gpus}")


def reconcile(state: State, decision: Decision, now: float) -> None:
    """Write the leases and attempts of a decision into the state, and collect the commands that follow."""
    check(state, decision)
    taken: list[Lease] = []
    try:
        for grant in decision.grants:
            for lease in _leases(state.jobs[grant.job], grant):
                state.ledger.take(lease)
                taken.append(lease)
    except BadPlan:
        for lease in taken:
            state.ledger.release(lease.worker)
        raise
    state.changes.leases_added.extend(taken)
    for grant in decision.grants:
        _start(state, state.jobs[grant.job], grant, now)


def _leases(job: Job, grant: Grant) -> list[Lease]:
    return [
        Lease(WorkerId(job.id, job.attempt + 1, rank), node, job.shape.per_worker, devices)
        for rank, (node, devices) in enumerate(grant.spots)
    ]


def _start(state: State, job: Job, grant: Grant, now: float) -> None:
    job.attempt += 1
    attempt = Attempt(AttemptId(job.id, job.attempt), created_at=now)
    for rank, (node, devices) in enumerate(grant.spots):
        attempt.workers.append(Worker(WorkerId(job.id, job.attempt, rank), node, devices))
    state.attempts[job.id] = attempt
    state.changes.attempts[job.id] = attempt
    state.queue.remove(job.id)
    nodes = ", ".join(sorted({str(node) for node, _ in grant.spots}))
    state.move(job, Trigger.START, now, f"starts on {nodes}", workers=len(grant.spots))
    state.command(StartAttempt(attempt.id))
