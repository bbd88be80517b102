"""Whose turn it is where something has changed, when nobody waits but suspended jobs: nobody else is looked at.

A suspended job goes on where it is or not at all, and a running one stays or loses its place. Where the stage gives
everybody what it wants if that is free, whoever was refused before, all follows from the order of those who share
nodes, directly or over others. Decided upon once, it would be the same again until something changes on such a node: a
turn ends, a job leaves, or one comes. (By count they fit whenever their places are free, so what others have elsewhere
makes no difference.)
"""

import heapq
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from schedulearn.core.control.allocation import Decision, Grant, Undo, place_elsewhere
from schedulearn.core.control.book import Places
from schedulearn.core.control.hysteresis import pays_to_move
from schedulearn.core.control.ledger import Ledger, NodeLedger
from schedulearn.core.control.queue import Queue
from schedulearn.core.control.running_jobs import RunningJobs, rank
from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Job, Placement
from schedulearn.core.domain.node import NodeState
from schedulearn.core.domain.resources import CPUS, EPSILON, GPUS, Resources
from schedulearn.core.policies.stages import Facts, Key, Memory, NoPlace, Policy


class Unsettled(NamedTuple):
    """The nodes where something has changed since turns were last decided upon; who was promised something on each
    node, and where each job is."""

    nodes: Collection[NodeName]
    there: Mapping[NodeName, Collection[JobId]]
    places: Mapping[JobId, Places]


def only_turns(policy: Policy, queue: Queue, adjustable: Mapping[str, RunningJobs]) -> bool:
    """Is this all there is to decide? Jobs without GPUs share cores with the others in ways of their own."""
    if not (policy.order.suspends and policy.allocate.regardless) or queue.count(CPUS) or adjustable[CPUS]:
        return False
    return queue.count(GPUS) == len(queue.suspended[GPUS])


def take_turns(
    unsettled: Unsettled,
    policy: Policy,
    queue: Queue,
    ledger: Ledger,
    running: RunningJobs,
    now: float,
    undo: Undo,
    decision: Decision,
) -> None:
    """What the allocate stage would give and refuse among those for whom that may be something else than before."""
    contest = _Contest(unsettled, policy, queue, ledger, running, now)
    try:
        contest.settle(unsettled.nodes)
    finally:
        contest.end()
    decision.grants += [Grant(job.id, job.suspended_at) for job in contest.go_on]
    decision.refusals.update({job.shape: (job.id, NoPlace()) for job in contest.refused})
    stopped = [job for number, job in running.items() if number in contest.lost] if contest.lost else []
    freed = _slots(stopped) - _slots(contest.go_on)
    if stopped and (contest.is_odd or ledger.free_slots(GPUS) + freed > EPSILON):
        for job in stopped:
            undo.give_back(job.shape.rest, job.placements)
        for job in contest.go_on:
            undo.take(job.shape, job.suspended_at)
        stopped = move_stopped(stopped, GPUS, policy, queue.facts, ledger, undo, decision.memory, now, decision.grants)
    decision.stops += [job.id for job in stopped]


def _slots(jobs: Iterable[Job]) -> float:
    total = 0.0
    for job in jobs:
        total += len(job.placements or job.suspended_at) * job.shape.slots
    return total


class _Contest:
    """Jobs are looked at in their order, beginning with those on the nodes where something has changed.

    Of whom nothing has changed on any node it is known how it was decided: who runs stays, who is suspended waits. A
    job that loses its place makes a difference to those who come later on its nodes; one that goes on, to those who
    run there and come later. What is free for the next one is counted on the nodes of the ledger, past its indexes.
    """

    def __init__(
        self, unsettled: Unsettled, policy: Policy, queue: Queue, ledger: Ledger, running: RunningJobs, now: float
    ) -> None:
        self.go_on: list[Job] = []  # in order
        self.refused: list[Job] = []  # of those who were looked at
        self.lost: set[JobId] = set()
        self.is_odd = False  # is a node among them that takes no new jobs?
        self._there, self._places, self._order, self._facts = (
            unsettled.there,
            unsettled.places,
            policy.order,
            queue.facts,
        )
        self._ledger, self._running, self._suspended_on, self._now = ledger, running, queue.suspended_on, now
        self._line: list[tuple[Key, Job, NodeName]] = []  # a heap of those who are still to be looked at
        self._seen: set[JobId] = set()  # those who are or were in it
        self._came_to: dict[NodeName, int] = {}  # how far among those who are suspended on a node
        self._counted: dict[NodeName, NodeLedger | None] = {}  # nodes where what is free is counted along
        self._before: list[tuple[NodeLedger, Any]] = []

    def settle(self, nodes: Collection[NodeName]) -> None:
        for node in nodes:
            self._look_again(node, ())
        while self._line:
            key, job, node = heapq.heappop(self._line)
            if job.placements:
                self._stay(job, key)
                continue
            (self.go_on if self._goes_on(job, key) else self.refused).append(job)
            self._come_to_next(node)

    def end(self) -> None:
        """Leave the ledger as it was."""
        for node, before in self._before:
            node.reset(before)

    def _stay(self, job: Job, key: Key) -> None:
        places = self._places[job.id].grouped
        if self._take(job, [pair for pair in places if pair[0].node in self._counted]):
            return
        self.lost.add(job.id)
        for placement, _ in places:
            self._look_again(placement.node, key)

    def _goes_on(self, job: Job, key: Key) -> bool:
        places, amounts = self._places[job.id].grouped, job.shape.rest.per_worker
        for placement, count in places:
            if placement.node in self._counted and not self._fits(job, amounts, placement, count):
                return False
        for placement, _ in places:
            self._count(placement.node, key)
        return self._take(job, places)

    def _fits(self, job: Job, amounts: Resources, placement: Placement, count: int) -> bool:
        node = self._counted[placement.node]
        if node is None or (node.node.state is NodeState.LOST and not job.placements):
            return bool(job.placements)
        return node.fits(amounts, placement.devices, count)

    def _take(self, job: Job, places: Iterable[tuple[Placement, int]]) -> bool:
        """All of these, or none: what fits by itself may not do so together."""
        taken, amounts = list[tuple[NodeLedger, Placement, int]](), job.shape.rest.per_worker
        for placement, count in places:
            if not self._fits(job, amounts, placement, count):
                for node, was, so_many in taken:
                    node.give_back(amounts, was.devices, so_many)
                return False
            if there := self._counted[placement.node]:
                there.take(amounts, placement.devices, count)
                taken.append((there, placement, count))
        return True

    def _look_again(self, node: NodeName, after: Key) -> None:
        """At all on this node who come after this key."""
        self._count(node, after)
        self._came_to[node] = bisect_left(self._suspended_on.get(node, ()), (after,))
        self._come_to_next(node)

    def _come_to_next(self, node: NodeName) -> None:
        """Of those who are suspended there the next one for whom enough is left."""
        ledger, at = self._counted[node], self._came_to[node]
        there, left = self._suspended_on.get(node, ()), ledger.free_gpus if ledger else 0
        while left and at < len(there):
            key, needs, job = there[at]
            at += 1
            if needs <= left and job.id not in self._seen:
                self._seen.add(job.id)
                heapq.heappush(self._line, (key, job, node))
                break
        self._came_to[node] = at

    def _count(self, name: NodeName, after: Key) -> None:
        """From this key on count what is free on the node: who comes later and runs there has to be looked at."""
        if name in self._counted:
            return
        node = self._counted[name] = self._ledger.node(name)
        if node:
            self._before.append((node, node.remembered()))
            self.is_odd = self.is_odd or node.node.state is not NodeState.UP
        for number in self._there.get(name, ()):
            job = self._running.get(number)
            if job is None or (key := rank(job, self._order, self._facts, self._now)) < after:
                continue
            amounts = job.shape.rest.per_worker
            for placement, count in self._places[number].grouped:
                if node and placement.node == name:
                    node.give_back(amounts, placement.devices, count)
            if number not in self._seen:
                self._seen.add(number)
                heapq.heappush(self._line, (key, job, name))


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
