"""Steps that may happen to a control loop, and what must hold after each."""

from collections import Counter
from dataclasses import replace

from schedulearn.domain import events as ev
from schedulearn.domain.ids import JobId, NodeName
from schedulearn.domain.job import Job
from schedulearn.domain.node import NodeState
from schedulearn.domain.resources import MEMORY
from support.builders import BROKEN, LOST, OK, World, job, node


def check(w: World) -> None:
    held = Counter(device for lease in w.state.leases.values() for device in lease.devices)
    assert not held or max(held.values()) == 1, "a device is leased twice"
    for ledger in w.state.ledger:
        taken = [lease.amounts for lease in w.state.leases.values() if lease.node == ledger.name]
        for name, capacity in ledger.node.capacity.items():
            assert sum(amounts[name] for amounts in taken) <= capacity + 1e-6
            promised = sum(_promised(job, ledger.name, name) for job in w.state.jobs.values())
            assert abs(capacity - promised - ledger.free[name]) < 1e-6
    for running in w.state.holders.values():
        assert running.slots == sum(job.workers * job.shape.slots for job in running.values())
    for number, attempt in w.state.attempts.items():
        shape = w.state.jobs[number].shape
        assert shape.workers.min <= len(attempt.workers) <= shape.workers.max
        leased = {worker: lease.amounts for worker, lease in w.state.leases.items() if worker.job == number}
        assert set(leased) == {worker.id for worker in attempt.running}
        if not w.job(number).pinned:
            assert set(leased.values()) <= {shape.per_worker}, "who runs holds all of its place"
    assert {lease.job for lease in w.state.leases} <= set(w.state.attempts)
    for queued in w.state.queue:
        assert (queued.id in w.state.attempts) == bool(queued.pinned)


def _promised(job: Job, node: NodeName, name: str) -> float:
    whole = sum(job.shape.per_worker[name] for spot in job.spots if spot.node == node)
    kept = sum(job.spec.resources.leased[name] for spot in job.pinned if spot.node == node and name == MEMORY)
    return whole + kept


def do(w: World, step: tuple, numbers: list[int]) -> None:  # type: ignore[type-arg]
    kind, what = step
    if kind == "submit":
        gpus, cpus, workers, priority = what
        number = len(numbers) + 1
        numbers.append(number)
        asked = {"gpus": gpus, "cpus": cpus, "workers": workers, "memory": 10**9 * workers, "priority": priority * 50}
        w.submit(job(number, **asked, max_restarts=1, at=w.now))
        return
    active = sorted(w.state.attempts)
    target = active[what % len(active)] if active else None
    any_job = JobId(numbers[what % len(numbers)]) if numbers else None
    if kind in ("exit", "fail", "lose") and target:
        w.exited(target, {"exit": OK, "fail": BROKEN, "lose": LOST}[kind])
    elif kind == "start" and target:
        w.started(target)
    elif kind == "still" and target:
        w.paused(target)
    elif kind == "wait":
        w.now += what * 10
        w.cycle()
    elif kind == "node":
        w.cycle(_of_node(w, NodeName(f"n{what % 2}"), what // 2 % 5))
    elif kind == "move" and target:
        w.cycle(ev.MigrateAsked(w.now, target, NodeName(f"n{what % 3}"), "ann"))
    elif kind == "drain":
        w.cycle(ev.DrainAsked(w.now, NodeName("n0"), "ann", bool(what % 2)))
    elif any_job and kind in ("cancel", "delete", "pause", "resume"):
        events = {"cancel": ev.CancelAsked, "delete": ev.DeleteAsked, "pause": ev.PauseAsked, "resume": ev.ResumeAsked}
        if kind == "delete" and any_job not in w.state.jobs:
            return
        w.cycle(events[kind](w.now, any_job, "ann"))


def _of_node(w: World, name: NodeName, what: int) -> ev.Event:
    """It falls silent, is given up, comes back, is removed by force or not; once removed, it joins again."""
    ledger = w.state.ledger.node(name)
    if ledger is None:
        return ev.NodeSeen(w.now, node(name, cpus=4, gpus=2))
    seen = replace(ledger.node, state=NodeState.UP, lost_at=None, problem="")
    return (
        ev.NodeLost(w.now, name, "no answer"),
        ev.NodeGone(w.now, name, "no answer for long") if ledger.node.lost_at is not None else ev.Tick(w.now),
        ev.NodeSeen(w.now, seen),
        ev.RemoveNodeAsked(w.now, name, "ann", False),
        ev.RemoveNodeAsked(w.now, name, "ann", True),
    )[what]
