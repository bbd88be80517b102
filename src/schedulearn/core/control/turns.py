"""Whose turn it is where something has changed, when nobody waits but suspended jobs: nobody else is looked at.

A suspended job goes on where it is or not at all, and a running one stays or loses its place. Where the stage gives
everybody what it wants if that is free, whoever was refused before, all follows from the order of those who share
nodes, directly or over others. Decided upon once, it would be the same again until something changes on such a node: a
turn ends, a job leaves, or one comes. (By count they fit whenever their places are free, so what others have elsewhere
makes no difference.)
"""

from collections.abc import Collection, Iterable, Mapping

from schedulearn.core.control.allocation import Decision, Grant, Undo, place_elsewhere
from schedulearn.core.control.hysteresis import pays_to_move
from schedulearn.core.control.ledger import Ledger
from schedulearn.core.control.queue import Queue
from schedulearn.core.control.running_jobs import RunningJobs, rank
from schedulearn.core.control.suspension import SharedPlaces
from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.resources import CPUS, GPUS
from schedulearn.core.policies.stages import Facts, Memory, NoPlace, Policy


def only_turns(policy: Policy, queue: Queue, adjustable: Mapping[str, RunningJobs]) -> bool:
    """Is this all there is to decide? Jobs without GPUs share cores with the others in ways of their own."""
    if not (policy.order.suspends and policy.allocate.regardless) or queue.count(CPUS) or adjustable[CPUS]:
        return False
    return queue.count(GPUS) == len(queue.suspended[GPUS])


def take_turns(
    unsettled: Collection[NodeName],
    policy: Policy,
    queue: Queue,
    ledger: Ledger,
    running: RunningJobs,
    now: float,
    undo: Undo,
    decision: Decision,
) -> None:
    """What the allocate stage would give and refuse among the jobs on these nodes, and on those connected with them."""
    run, suspended = _concerned(unsettled, running.values(), queue.suspended[GPUS].values())
    if not suspended:
        return  # those who run have had room together since they were last decided upon
    ranked = [(rank(job, policy.order, queue.facts, now), job) for job in run]
    ranked += [(queue.key(job), job) for job in suspended]
    places, stays = SharedPlaces(ledger, undo, run, suspends=True), set()
    for _, job in sorted(ranked):  # ranks never tie
        if places.put(job):
            stays.add(job.id)
            if not job.placements:
                decision.grants.append(Grant(job.id, job.suspended_at))
        elif not job.placements:
            decision.refusals[job.shape] = (job.id, NoPlace())
    stopped = [job for job in run if job.id not in stays]
    places.clear()  # also where nobody was suspended: who has lost its place no longer has it
    stopped = move_stopped(stopped, GPUS, policy, queue.facts, ledger, undo, decision.memory, now, decision.grants)
    decision.stops += [job.id for job in stopped]


def _concerned(
    unsettled: Collection[NodeName], running: Iterable[Job], suspended: Iterable[Job]
) -> tuple[list[Job], list[Job]]:
    """Those who run and those who are suspended on these nodes, or on nodes that one of them is on, and so on."""
    nodes = set(unsettled)
    by_nodes = [(job, {placement.node for placement in job.placements}) for job in running]
    waiting = [(job, {placement.node for placement in job.suspended_at}) for job in suspended]
    spread = [there for _, there in (*by_nodes, *waiting) if len(there) > 1]
    while more := [there for there in spread if not there.isdisjoint(nodes) and not there <= nodes]:
        nodes.update(*more)
    return (
        [job for job, there in by_nodes if not there.isdisjoint(nodes)],
        [job for job, there in waiting if not there.isdisjoint(nodes)],
    )


def move_stopped(
    stopped: list[Job],
    pool: str,
    policy: Policy,
    facts: Facts,
    ledger: Ledger,
    undo: Undo,
    memory: Memory,
    now: float,
    grants: list[Grant],
) -> list[Job]:
    """Who has lost its place to a job that can be nowhere else goes where there is room, if it may be stopped.

    The others are returned.
    """
    left = []
    free = ledger.free_slots(pool)
    for job in stopped:
        may = free and pays_to_move(job, now, facts)
        placements = place_elsewhere(job, policy, ledger, undo, memory) if may else None
        if placements:
            grants.append(Grant(job.id, placements))
        else:
            left.append(job)
    return left
