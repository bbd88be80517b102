"""When there is room for everybody: no contest is held."""

from schedulearn.core.control.contest import Decision, Grant, Undo, place_workers
from schedulearn.core.control.ledger import Ledger
from schedulearn.core.control.queue import Queue
from schedulearn.core.control.runners import Runners
from schedulearn.core.domain.job import Job
from schedulearn.core.policies.stages import AtEase, Policy

_FORGIVEN = 1e-9


def start_everybody(
    pool: str, policy: Policy, queue: Queue, ledger: Ledger, running: Runners, undo: Undo, decision: Decision
) -> bool:
    """Give all who wait what they would get with nobody else around; False, with nothing changed, if that is too much.

    Only where those who run have as much as they would ever be given: otherwise they are after the same slots.
    """
    at_ease: AtEase | None = getattr(policy.allocate, "at_ease", None)
    free = ledger.free_slots(pool) + _FORGIVEN
    if at_ease is None or queue.suspended[pool] or queue.count(pool) > free:
        return False
    if policy.allocate.elastic and not (queue.facts.steady and running.all_have(at_ease, queue.facts)):
        return False
    wanted: list[tuple[Job, int]] = []
    for job in queue.all_in_order(pool):
        workers = at_ease(job, queue.facts)
        free -= workers * job.shape.slots
        if free < 0:
            return False
        wanted.append((job, workers))
    return _place_all(wanted, policy, ledger, undo, decision)


def _place_all(wanted: list[tuple[Job, int]], policy: Policy, ledger: Ledger, undo: Undo, decision: Decision) -> bool:
    mark, memory, grants = undo.mark(), dict(decision.memory), []
    for job, workers in wanted:
        spots = place_workers(job, workers, policy, ledger, undo, memory)
        if spots is None:
            undo.back_to(mark)
            return False
        grants.append(Grant(job.id, spots))
    decision.memory = memory
    decision.grants += grants
    return True
