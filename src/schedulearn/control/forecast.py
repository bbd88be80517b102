"""When will a waiting job start? The same `decide` run ahead in time, on copies, with estimated durations."""

import heapq
from collections.abc import Callable

from schedulearn.control.decide import Grant, decide
from schedulearn.control.ledger import Ledger
from schedulearn.control.queue import Queue
from schedulearn.control.state import State
from schedulearn.domain.ids import JobId, WorkerId
from schedulearn.domain.job import Job, Lease
from schedulearn.estimate.remaining import Estimate
from schedulearn.policies.stages import Memory, Policy

_MOST_STEPS = 300  # beyond so many ends the guess is worth nothing, and costs time

Remaining = Callable[[Job], Estimate | None]  # how long a job, running or waiting, still runs once it runs


def forecast_start(
    state: State, policy: Policy, job: Job, now: float, memory: Memory, remaining: Remaining
) -> Estimate | None:
    """Seconds until the job starts, or None where too little is known."""
    ledger = Ledger([n.node for n in state.ledger.nodes], state.ledger.leases.values())
    queue = state.queue.copy()
    ends: list[tuple[float, float, JobId]] = []  # (expected end, doubt, job)

    def ends_after(start: float, other: Job) -> bool:
        if (estimate := remaining(other)) is None:
            return False
        doubt = (estimate.high - estimate.low) / 2
        heapq.heappush(ends, (start + estimate.expected, doubt, other.id))
        return True

    for running in state.attempts:
        # One whose end nobody can guess simply stays where it is.
        ends_after(now, state.jobs[running])
    time, doubt = now, 0.0
    for _ in range(_MOST_STEPS):
        decision = decide(policy, queue, ledger, time, memory)
        for grant in decision.grants:
            if grant.job == job.id:
                wait = time - now
                return Estimate(max(0.0, wait - doubt), wait, wait + doubt)
            _take(ledger, queue, grant)
            ends_after(time, state.jobs[grant.job])
        if not ends:
            return None
        time, doubt, ended = heapq.heappop(ends)
        for worker in [w for w in ledger.leases if w.job == ended]:
            ledger.release(worker)
    return None


def _take(ledger: Ledger, queue: Queue, grant: Grant) -> None:
    shape = queue.job(grant.job).shape
    for rank, (node, devices) in enumerate(grant.spots):
        ledger.take(Lease(WorkerId(grant.job, 0, rank), node, shape.per_worker, devices))
    queue.remove(grant.job)
