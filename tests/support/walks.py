"""Steps that may happen to a control loop, and what must hold after each."""

from collections import Counter
from dataclasses import asdict, replace
from typing import Any

from schedulearn.core.control.growth import beyond, placement_of
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.commands import Regroup
from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.node import NodeState
from schedulearn.core.domain.resources import MEMORY
from schedulearn.core.domain.spec import STOP, YIELD, Launcher, Preemptible, Target
from schedulearn.core.domain.states import JobState
from support.builders import BROKEN, KILLED, LOST, OK, World, job, leases_of, node

_OF_WORKERS = {"exit", "fail", "lose", "one ends", "one fails", "start", "still"}


def check(w: World) -> None:
    held = Counter(device for lease in leases_of(w.state).values() for device in lease.devices)
    assert not held or max(held.values()) == 1, "a device is leased twice"
    for ledger in w.state.ledger:
        taken = [lease.amounts for lease in leases_of(w.state).values() if lease.node == ledger.name]
        for name, capacity in ledger.node.capacity.items():
            assert sum(amounts[name] for amounts in taken) <= capacity + 1e-6
            promised = sum(_promised(job, ledger.name, name) for job in w.state.jobs.values())
            assert abs(capacity - promised - ledger.free[name]) < 1e-6
    for running in w.state.adjustable.values():
        assert running.slots == sum(job.workers * job.shape.slots for job in running.values())
    promised_to = [one for one in w.state.jobs.values() if one.placements]
    there = {(place.node, one.id) for one in promised_to for place in one.placements}
    assert {(name, number) for name, numbers in w.state.there.items() for number in numbers} == there
    assert set(w.state.without_gpus) == {one.id for one in promised_to if not one.shape.gpus}
    for number, attempt in w.state.attempts.items():
        shape = w.state.jobs[number].shape
        if w.job(number).stop is None and not attempt.finishing:
            assert shape.workers.min <= len(attempt.crew) <= shape.workers.max
        leased = {worker: lease.amounts for worker, lease in leases_of(w.state).items() if worker.job == number}
        assert set(leased) == {worker.id for worker in attempt.running}
        if not w.job(number).suspended_at:
            assert set(leased.values()) <= {shape.per_worker}, "who runs holds all of its place"
        _check_group(w, number)
    assert {lease.job for lease in leases_of(w.state)} <= set(w.state.attempts)
    assert w.state.shrinking == {n for n, attempt in w.state.attempts.items() if attempt.leavers}
    for queued in w.state.queue:
        assert (queued.id in w.state.attempts) == bool(queued.suspended_at)


def _check_group(w: World, number: JobId) -> None:
    """What a job is promised is what its crew has, and what it will grow into."""
    one, attempt = w.job(number), w.state.attempts[number]
    assert [worker.id.rank for worker in attempt.workers] == list(range(len(attempt.workers)))
    if one.spec.resizes_live and one.state in (JobState.RUNNING, JobState.PAUSED) and not one.suspended_at:
        crew = [placement_of(worker) for worker in attempt.crew]
        assert not beyond(crew, one.placements), "a worker is where nothing was promised"
        assert bool(beyond(one.placements, crew)) == (number in w.state.growing)
    if number in w.state.growing:
        assert one.state is JobState.RUNNING
    for command in w.commands:
        if isinstance(command, Regroup) and command.worker.of == attempt.id:
            assert command.group.generation <= attempt.generation
            assert list(command.group.members) == sorted(command.group.members)


def _promised(job: Job, node: NodeName, name: str) -> float:
    whole = sum(job.shape.per_worker[name] for placement in job.placements if placement.node == node)
    kept = sum(
        job.spec.resources.leased[name] for placement in job.suspended_at if placement.node == node and name == MEMORY
    )
    return whole + kept


def do(w: World, step: tuple, numbers: list[int]) -> None:  # type: ignore[type-arg]
    kind, what = step
    if kind == "submit":
        _submit(w, what, numbers)
        return
    active = sorted(w.state.attempts)
    target = active[what % len(active)] if active else None
    any_job = JobId(numbers[what % len(numbers)]) if numbers else None
    if kind in _OF_WORKERS:
        if target:
            _to_workers(w, target, kind, what)
    elif kind == "leave":
        w.leave()
    elif kind in ("update", "good") and any_job:
        (_resize if kind == "update" else _good_enough)(w, any_job, what)
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


def _submit(w: World, what: tuple[int, float, int, int], numbers: list[int]) -> None:
    gpus, cpus, workers, priority = what
    number = len(numbers) + 1
    numbers.append(number)
    asked: dict[str, Any] = {"gpus": gpus, "cpus": cpus, "workers": workers, "priority": priority * 50}
    if number % 3 == 0:  # its workers come and go
        asked |= {"workers": (1, workers, workers + 2), "launcher": Launcher.ELASTIC, "preemptible": Preemptible.YES}
    w.submit(job(number, **asked, memory=10**9 * workers, max_restarts=1, at=w.now))


def _resize(w: World, number: JobId, what: int) -> None:
    low = 1 + what % 3
    fields = {"workers": {"min": low, "want": low, "max": low + what // 3 % 3}}
    w.cycle(ev.UpdateAsked(w.now, number, "ann", fields))


def _good_enough(w: World, number: JobId, what: int) -> None:
    """It gets a target and reaches it if it runs; it has saved, so that it may be interrupted."""
    target = Target(0.5, STOP if what % 5 == 0 else YIELD)
    asked = ev.UpdateAsked(w.now, number, "ann", {"target": asdict(target)})
    w.cycle(ev.CheckpointSeen(w.now, number), asked, ev.TargetReached(w.now, number, target, 0.4, (0.4, 0.4, 0.4)))


def _to_workers(w: World, target: JobId, kind: str, what: int) -> None:
    """Something happens to the workers of a job that has some, or to one of them."""
    if kind in ("exit", "fail", "lose"):
        w.exited(target, {"exit": OK, "fail": BROKEN, "lose": LOST}[kind])
    elif kind in ("one ends", "one fails"):
        running = w.state.attempts[target].running
        w.exited(target, OK if kind == "one ends" else KILLED, running[what % len(running)].id.rank)
    elif kind == "start":
        w.started(target)
    else:
        w.paused(target)


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
