"""What must hold whatever happens, for every preset."""

from collections import Counter
from copy import deepcopy
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.control.decide import decide
from schedulearn.control.restore import restore
from schedulearn.domain import events as ev
from schedulearn.domain.ids import JobId, NodeName
from schedulearn.domain.job import Job
from schedulearn.domain.node import NodeState
from schedulearn.estimate.facts import AssumedFacts
from schedulearn.policies.presets import PRESETS
from support.builders import BROKEN, LOST, OK, World, job, node

_sizes = st.tuples(st.integers(0, 4), st.sampled_from([0.5, 1, 2]), st.integers(1, 3), st.integers(0, 2))
_submit = st.tuples(st.just("submit"), _sizes)
_kinds = ("exit", "fail", "lose", "cancel", "delete", "pause", "resume", "start", "wait", "drain", "move", "node")
_act = st.tuples(st.sampled_from(_kinds), st.integers(0, 30))
_steps = st.lists(st.one_of(_submit, _act), max_size=60)
_clusters = st.lists(st.tuples(st.integers(1, 8), st.integers(0, 4)), min_size=1, max_size=4)


def _check(w: World) -> None:
    held = Counter(device for lease in w.state.leases.values() for device in lease.devices)
    assert not held or max(held.values()) == 1, "a device is leased twice"
    for ledger in w.state.ledger:
        taken = [lease.amounts for lease in w.state.leases.values() if lease.node == ledger.name]
        for name, capacity in ledger.node.capacity.items():
            assert sum(amounts[name] for amounts in taken) <= capacity + 1e-6
            promised = sum(_promised(job, ledger.name, name) for job in w.state.jobs.values())
            assert abs(capacity - promised - ledger.free[name]) < 1e-6
    for number, attempt in w.state.attempts.items():
        shape = w.state.jobs[number].shape
        assert shape.workers.min <= len(attempt.workers) <= shape.workers.max
        leased = {worker for worker in w.state.leases if worker.job == number}
        assert leased == {worker.id for worker in attempt.running}
    assert {lease.job for lease in w.state.leases} <= set(w.state.attempts)
    for queued in w.state.queue:
        assert queued.id not in w.state.attempts


def _promised(job: Job, node: NodeName, name: str) -> float:
    return sum(job.shape.per_worker[name] for spot in job.spots if spot.node == node)


def _nothing_idle(w: World) -> None:
    """Whoever still waits really does not fit."""
    decision = decide(w.policy, w.state.queue, w.state.ledger, w.state.holders, w.now, w.memory)
    assert decision.grants == [], "the decision before left something that fits"


def _do(w: World, step: tuple, numbers: list[int]) -> None:  # type: ignore[type-arg]
    kind, what = step
    if kind == "submit":
        gpus, cpus, workers, priority = what
        number = len(numbers) + 1
        numbers.append(number)
        w.submit(job(number, gpus=gpus, cpus=cpus, workers=workers, priority=priority * 50, max_restarts=1, at=w.now))
        return
    active = sorted(w.state.attempts)
    target = active[what % len(active)] if active else None
    any_job = JobId(numbers[what % len(numbers)]) if numbers else None
    if kind in ("exit", "fail", "lose") and target:
        w.exited(target, {"exit": OK, "fail": BROKEN, "lose": LOST}[kind])
    elif kind == "start" and target:
        w.started(target)
    elif kind == "wait":
        w.now += what * 10
        w.cycle()
    elif kind == "drain":
        w.cycle(ev.DrainAsked(w.now, NodeName("n0"), "ann", bool(what % 2)))
    elif kind == "node":
        w.cycle(_of_node(w, NodeName(f"n{what % 2}"), what // 2 % 5))
    elif kind == "move" and target:
        w.cycle(ev.MigrateAsked(w.now, target, NodeName(f"n{what % 3}"), "ann"))
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


def _world(cluster: list[tuple[int, int]], preset: str) -> World:
    nodes = [node(f"n{i}", cpus=cpus, gpus=gpus) for i, (cpus, gpus) in enumerate(cluster)]
    return World(*nodes, policy=preset, params=without_guard(preset))


def without_guard(preset: str) -> dict[str, str]:
    """Reservations are allowed to leave slots idle: they are switched off where idle slots are looked at."""
    return {"starvation_guard": "off"} if PRESETS[preset].allocate == "rigid" else {}


@given(_clusters, _steps, st.sampled_from(sorted(PRESETS)))
@settings(max_examples=150, deadline=None)
def test_ledger_and_states_hold_whatever_happens(cluster, steps, preset) -> None:  # type: ignore[no-untyped-def]
    w = _world(cluster, preset)
    numbers: list[int] = []
    for step in steps:
        _do(w, step, numbers)
        _check(w)


@given(_clusters, _steps, st.sampled_from(sorted(PRESETS)))
@settings(max_examples=100, deadline=None)
def test_no_slot_stays_idle_that_a_waiting_job_could_use(cluster, steps, preset) -> None:  # type: ignore[no-untyped-def]
    w = _world(cluster, preset)
    numbers: list[int] = []
    for step in steps:
        _do(w, step, numbers)
        _nothing_idle(w)


@given(_clusters, _steps, st.sampled_from(sorted(PRESETS)))
@settings(max_examples=60, deadline=None)
def test_equal_inputs_give_equal_decisions_and_deciding_changes_nothing(cluster, steps, preset) -> None:  # type: ignore[no-untyped-def]
    one, two = _world(cluster, preset), _world(cluster, preset)
    first: list[int] = []
    second: list[int] = []
    for step in steps:
        _do(one, step, first)
        decide(two.policy, two.state.queue, two.state.ledger, two.state.holders, two.now, deepcopy(two.memory))
        _do(two, step, second)
        assert [(e.kind, e.job, e.cause) for e in one.history] == [(e.kind, e.job, e.cause) for e in two.history]
        assert one.memory == two.memory


@given(_clusters, _steps)
@settings(max_examples=60, deadline=None)
def test_a_restart_decides_the_same(cluster, steps) -> None:  # type: ignore[no-untyped-def]
    w = _world(cluster, "round-robin")
    numbers: list[int] = []
    for step in steps:
        _do(w, step, numbers)
    nodes = [n.node for n in w.state.ledger]
    again = restore(
        w.policy.order,
        AssumedFacts(),
        deepcopy(list(w.state.jobs.values())),
        deepcopy(list(w.state.attempts.values())),
        list(w.state.leases.values()),
        nodes,
        deepcopy(w.memory),
        w.now,
    )
    assert sorted(j.id for j in again.queue) == sorted(j.id for j in w.state.queue)
    assert again.waits_for == {k: v for k, v in w.state.waits_for.items() if k in w.state.jobs}
    plans = [decide(w.policy, s.queue, s.ledger, s.holders, w.now, deepcopy(w.memory)) for s in (w.state, again)]
    assert plans[0].grants == plans[1].grants
    assert plans[0].memory == plans[1].memory


@given(st.lists(_sizes, min_size=1, max_size=25), st.sampled_from(sorted(PRESETS)))
@settings(max_examples=60, deadline=None)
def test_every_job_that_fits_somewhere_is_run_in_the_end(sizes, preset) -> None:  # type: ignore[no-untyped-def]
    w = World(node("n0", cpus=8, gpus=4), node("n1", cpus=8, gpus=4), policy=preset)
    wanted = []
    for number, (gpus, cpus, workers, _) in enumerate(sizes, 1):
        if gpus * workers <= 4:
            wanted.append(job(number, gpus=gpus, cpus=cpus, workers=workers))
    w.submit(*wanted)
    for _ in range(len(wanted)):
        w.settle()
        if w.running():
            w.now += 100
            w.exited(w.running()[0], OK)
    assert {e.job for e in w.history if e.state == "succeeded"} == {j.id for j in wanted}
