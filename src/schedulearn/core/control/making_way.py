"""Jobs that have reached their target leave for those that find no place beside them, whatever it is that they lack.

An allocate stage counts the slots of one pool. What else a job needs, memory above all, shows when it is placed.
"""

from collections.abc import Mapping

from schedulearn.core.control.allocation import Decision, Grant, Undo, place_workers
from schedulearn.core.control.ledger import Ledger
from schedulearn.core.control.queue import Queue
from schedulearn.core.control.running_jobs import RunningJobs, rank
from schedulearn.core.domain.job import Job, Placement, grouped
from schedulearn.core.policies.stages import HeldBehind, Policy


def make_way(
    policy: Policy,
    queue: Queue,
    ledger: Ledger,
    adjustable: Mapping[str, RunningJobs],
    now: float,
    undo: Undo,
    decision: Decision,
) -> None:
    """Stop as few of them as that takes, from the back of the order.

    Not where jobs are suspended, as they keep their memory, nor where no running job loses its cores.
    """
    if policy.order.suspends or policy.counts_cores or not decision.refusals:
        return
    changed = {*decision.stops, *(grant.job for grant in decision.grants)}
    yielding = [job for pool in adjustable.values() for job in pool.yielding.values() if job.id not in changed]
    if not yielding:
        return
    yielding.sort(key=lambda job: rank(job, policy.order, queue.facts, now), reverse=True)
    refused = {number for number, why in decision.refusals.values() if not isinstance(why, HeldBehind)}
    waiting = [job for job in queue if job.id in refused and not (job.yields or job.suspended_at)]
    for job in sorted(waiting, key=queue.key):
        mark, memory = undo.mark(), dict(decision.memory)
        leaving, placements = _room_for(job, yielding, policy, ledger, undo, memory)
        if placements is None:
            undo.back_to(mark)
            continue
        decision.memory, decision.settled = memory, False
        decision.grants.append(Grant(job.id, placements))
        decision.refusals.pop(job.shape)
        decision.stops += [one.id for one in leaving]
        yielding = [one for one in yielding if one not in leaving]


def _room_for(
    job: Job, yielding: list[Job], policy: Policy, ledger: Ledger, undo: Undo, memory: dict[str, object]
) -> tuple[list[Job], tuple[Placement, ...] | None]:
    """Those that leave, and the places of the job; None if it has none although all of them leave."""
    workers = job.shape.workers.min if policy.allocate.elastic else job.shape.workers.want
    leaving: list[Job] = []
    for one in yielding:
        undo.give_back(one.shape, one.placements)
        leaving.append(one)
        if placements := place_workers(job, workers, policy, ledger, undo, memory):
            return [one for one in leaving if not _stays(one, ledger, undo)], placements
    return [], None


def _stays(job: Job, ledger: Ledger, undo: Undo) -> bool:
    """Whether there is room for it after all; if so, it is where it was."""
    mark = undo.mark()
    for placement, count in grouped(job.placements):
        node = ledger.node(placement.node)
        if node is None or not node.fits(job.shape.per_worker, placement.devices, count):
            undo.back_to(mark)
            return False
        undo.take(job.shape, (placement,) * count)
    return True
