"""Pollux: sizes and places together, so that all gain as much as can be against an equal share."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.policies.place.pollux import NOTE
from schedulearn.core.policies.solvers.matrices import Player, search
from schedulearn.core.policies.stages import Allocate, Allocation, FreeNode


class Pollux(Allocate):
    """Every minute the allocation with the largest (mean over jobs of speedup^p)^(1/p), p = -1.

    The speed-up of an allocation is what the job learns with it in a second, with the best batch, against what it
    would learn with its equal share. What a restart would cost is taken off: (age - restarts · cost) / (age + cost).
    """

    elastic = True

    def __init__(self, every: float = 60.0, population: int = 40, generations: int = 30, seed: int = 0) -> None:
        self._every, self._population, self._generations, self._seed = every, population, generations, seed

    def allocate(self, allocation: Allocation) -> float | None:
        pool = next(iter(allocation.shapes())).pool
        if not allocation.waiting_count and all(
            self._is_content(job, allocation) for job in allocation.running.values()
        ):
            allocation.give_all([(job, len(job.placements)) for job in allocation.running.values()])
            return None
        note = allocation.memory.get(NOTE, {}).get(pool, {})
        again: float = note.get("at", -self._every) + self._every
        if allocation.now < again - 1e-6:
            sizes = {job.id: len(job.placements) for job in allocation.running.values()}
        else:
            sizes, again = self._search(allocation, pool), allocation.now + self._every
        for job in allocation.running.values():  # those that shrink make room for the others
            if 0 < sizes.get(job.id, 0) <= len(job.placements):
                allocation.give(job, sizes[job.id])
        for job in [*allocation.running.values(), *allocation.waiting(all_of_them=True)]:
            if sizes.get(job.id, 0) > len(job.placements):
                allocation.give(job, sizes[job.id])
        for job in allocation.waiting():
            allocation.refuse(job)
        return again

    def _is_content(self, job: Job, allocation: Allocation) -> bool:
        """Whether it has as many as it would ever be given."""
        workers = job.shape.workers
        best = max(range(workers.min, workers.max + 1), key=allocation.facts.speedup(job))
        return len(job.placements) == best

    def _search(self, allocation: Allocation, pool: str) -> dict[JobId, int]:
        """The workers of each job that has some; where is noted for the place stage."""
        waiting = islice(allocation.waiting(all_of_them=True), int(allocation.slots))
        jobs, nodes = [*allocation.running.in_order(), *waiting], list(allocation.nodes)
        if not jobs:
            return {}  # nothing can be given at all
        used = Counter[str]()
        for job in allocation.running.values():
            used.update({node: n * job.shape.slots for node, n in _there(job).items()})
        capacity = [node.free_slots(pool) + used[node.name] for node in nodes]
        share = sum(capacity) / len(jobs)
        players = [_player(job, nodes, share, allocation) for job in jobs]
        seed = self._seed + int(allocation.now)
        found = search(players, capacity, self._population, self._generations, seed)
        places = {
            str(job.id): [node.name for node, n in zip(nodes, row, strict=True) for _ in range(n)]
            for job, row in zip(jobs, found, strict=True)
            if sum(row) != len(job.placements)
        }
        note = {"at": allocation.now, "places": places}
        allocation.memory[NOTE] = {**allocation.memory.get(NOTE, {}), pool: note}
        return {job.id: sum(row) for job, row in zip(jobs, found, strict=True) if sum(row)}


def _player(job: Job, nodes: Sequence[FreeNode], share: float, allocation: Allocation) -> Player:
    facts, shape = allocation.facts, job.shape
    workers, curve = shape.workers, facts.speedup(job)
    equal = share / shape.slots
    size = max(workers.min, min(workers.max, int(equal)))
    by_share = curve(size) * min(1.0, equal / size)
    together = [curve(n) / by_share for n in range(workers.max + 1)]
    there = _there(job)
    age, cost = allocation.now - job.submitted_at, facts.restart_cost(job)
    kept = max(0.0, age - (job.resizes + job.preemptions) * cost) / (age + cost) if age + cost > 0 else 1.0
    alone = 1 - facts.locality_penalty(job)
    return Player(
        [there[node.name] for node in nodes],
        workers.min,
        workers.max,
        shape.slots,
        together,
        [gain * alone for gain in together],
        kept,
        secure=bool(job.placements) and not allocation.preemptive and not job.yields,
    )


def _there(job: Job) -> Counter[str]:
    return Counter(placement.node for placement in job.placements)
