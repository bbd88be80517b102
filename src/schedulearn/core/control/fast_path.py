"""When there is room for all jobs: the allocate stage is not asked."""

from schedulearn.core.control.allocation import Decision, Grant, Undo, place_workers
from schedulearn.core.control.ledger import Ledger
from schedulearn.core.control.queue import Queue
from schedulearn.core.control.running_jobs import RunningJobs
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.resources import EPSILON
from schedulearn.core.policies.stages import Policy


def start_all(
    pool: str, policy: Policy, queue: Queue, ledger: Ledger, running: RunningJobs, undo: Undo, decision: Decision
) -> bool:
    """Give all waiting jobs what they would get if they were alone; False, with nothing changed, if that is too much.

    Only where running jobs have as much as they would ever be given: otherwise they are after the same slots.
    """
    enough = policy.allocate.enough
    free = ledger.free_slots(pool) + EPSILON
    if queue.suspended[pool] or queue.count(pool) > free:
        return False
    if policy.allocate.elastic and not (queue.facts.steady and running.all_have(enough, queue.facts)):
        return False
    wanted: list[tuple[Job, int]] = []
    for job in queue.all_in_order(pool):
        workers = enough(job, queue.facts)
        if workers is None:
            return False
        free -= workers * job.shape.slots
        if free < 0:
            return False
        wanted.append((job, workers))
    return _place_all(wanted, policy, ledger, undo, decision)


def _place_all(wanted: list[tuple[Job, int]], policy: Policy, ledger: Ledger, undo: Undo, decision: Decision) -> bool:
    mark, memory, grants = undo.mark(), dict(decision.memory), []
    for job, workers in wanted:
        placements = place_workers(job, workers, policy, ledger, undo, memory)
        if placements is None:
            undo.back_to(mark)
            return False
        grants.append(Grant(job.id, placements))
    decision.memory = memory
    decision.grants += grants
    return True
