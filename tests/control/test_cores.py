"""Whole cores for containers: what is leased, what limits are set, and what must hold whatever happens."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.control.restore import restore
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.commands import SetLimits, StopWorker
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.resources import CPUS, MEMORY
from schedulearn.core.domain.states import JobState
from schedulearn.core.policies.catalogue.presets import build_policy
from support.builders import KILLED, OK, World, job, leases_of, node

ALL = ["cores-strict", "cores-attend", "cores-proportional"]
GROWING = ["cores-attend", "cores-proportional"]


def ranged(number: int, low: float, high: float, **more: Any) -> Job:
    return job(number, cpus=low, cpus_max=high, **more)


def leased(w: World) -> dict[int, float]:
    """Cores by job."""
    return {int(worker.job): lease.amounts[CPUS] for worker, lease in leases_of(w.state).items()}


def limits(w: World) -> dict[int, float | None]:
    """Set in the last cycle, by job."""
    return {int(c.worker.job): c.limits.cpus for c in w.commands if isinstance(c, SetLimits)}


def switch(w: World, preset: str) -> None:
    w.policy = build_policy(preset)
    w.state.set_order(w.policy.order, w.now, counts_cores=w.policy.counts_cores)
    w.cycle()


def again(w: World) -> None:
    """The service died: all there is is what the store keeps."""
    before = w.state
    kept: list[Any] = [list(before.jobs.values()), list(before.attempts.values()), list(leases_of(before).values())]
    jobs, attempts, leases = deepcopy(kept)
    nodes = [n.node for n in before.ledger]
    w.state = restore(
        w.policy.order,
        before.facts,
        jobs,
        attempts,
        leases,
        nodes,
        deepcopy(before.memory),
        w.now,
        counts_cores=w.policy.counts_cores,
    )


# --- one container, so many cores


@pytest.mark.parametrize(
    ("preset", "asked", "expected"),
    [
        ("cores-strict", [(1, 4), (1, 3), (1, 1)], {1: 4, 3: 1}),  # all or nothing; the small one passes
        ("cores-attend", [(1, 4), (1, 3)], {1: 4, 2: 2}),
        ("cores-attend", [(1, 5), (1, 3)], {1: 5}),  # one core is not worth it
        ("cores-proportional", [(1, 4), (1, 8)], {1: 2, 2: 3}),  # 12 for 6; asks for no more than there is: 6, f = 10/6
        ("cores-proportional", [(4, 4), (4, 4)], {1: 4}),  # never below the least
        ("cores-strict", [(0.1, 0.5), (0.5, 1.5)], {1: 1, 2: 2}),  # whole ones
        ("cores-strict", [(1, 64)], {1: 6}),  # no more than the machine has
    ],
)
def test_a_container_leases_the_cores_it_was_given(
    preset: str, asked: list[tuple[float, float]], expected: dict[int, int]
) -> None:
    w = World(node("a", cpus=6), policy=preset)
    w.submit(*(ranged(number, low, high) for number, (low, high) in enumerate(asked, 1)))
    assert leased(w) == expected
    assert all(len(attempt.workers) == 1 for attempt in w.state.attempts.values())
    for number, cores in expected.items():
        assert w.job(number).cpus == min(cores, asked[number - 1][1]), "this is what it may use"


@pytest.mark.parametrize("preset", GROWING)
def test_it_grows_where_it_is_and_is_not_stopped_for_that(preset: str) -> None:
    w = World(node("a", cpus=6), policy=preset)
    w.submit(ranged(1, 1, 4))
    w.submit(ranged(2, 1, 4))
    assert leased(w) == {1: 4, 2: 2}
    w.started(1)
    w.started(2)
    w.now = 100.0
    w.exited(1)
    assert leased(w) == {2: 4}
    assert limits(w) == {2: 4}
    assert not any(isinstance(command, StopWorker) for command in w.commands)
    assert [worker.lease for worker in w.changes.leases_changed] == list(leases_of(w.state).values())
    (told,) = [event for event in w.history if event.kind == "resized"]
    assert (told.cause, told.data) == ("grows to 4 cores without a restart", {"cores": 4})
    assert w.job(2).attained.rate == 4, "its service is counted by them"
    again(w)
    assert (w.job(2).cores, w.job(2).cpus) == (4, 4)
    assert w.state.ledger.free_slots(CPUS) == 2


def test_its_own_machine_is_what_counts() -> None:
    w = World(node("a", cpus=4), node("b", cpus=4), policy="cores-attend")
    w.submit(ranged(1, 1, 3), ranged(2, 1, 3))
    assert sorted(leased(w).values()) == [3, 3], "one on each"
    assert w.submit(ranged(3, 1, 2)) == [], "two cores are free, but not on one machine"
    assert w.job(3).state is JobState.QUEUED


def test_memory_is_that_of_the_container_not_of_each_core() -> None:
    w = World(node("a", cpus=8, memory=10e9), policy="cores-strict")
    assert w.submit(ranged(1, 4, 4, memory=int(4e9)), ranged(2, 4, 4, memory=int(4e9))) == [1, 2]
    assert w.state.ledger.amounts(MEMORY)[1] == 2e9


def test_a_limit_of_its_user_holds_and_a_higher_one_is_an_ask_for_more() -> None:
    w = World(node("a", cpus=4), policy="cores-attend")
    w.submit(ranged(1, 1, 2))
    w.started(1)
    assert leased(w) == {1: 2}
    w.cycle(ev.UpdateAsked(w.now, JobId(1), "ann", {"cpus_limit": 1.5}))
    assert limits(w) == {1: 1.5}
    assert leased(w) == {1: 2}, "its cores stay its own"
    w.cycle(ev.UpdateAsked(w.now, JobId(1), "ann", {"cpus_limit": 4.0}))
    assert leased(w) == {1: 4}
    assert limits(w) == {1: 4}


def test_jobs_that_ran_before_are_counted_as_soon_as_there_is_room() -> None:
    w = World(node("a", cpus=4), policy="fifo")
    w.submit(ranged(1, 0.5, 2), ranged(2, 3.2, 4))
    w.started(1)
    w.started(2)
    switch(w, "cores-attend")
    assert leased(w) == {1: 0.5, 2: 3.2}, "0.3 cores are free: that makes none of them whole"
    w.exited(2)
    assert leased(w) == {1: 2}
    switch(w, "fifo")
    assert w.job(1).cpus == 2, "it keeps what it was given"
    again(w)
    assert (w.job(1).cores, w.state.ledger.free_slots(CPUS)) == (2, 2)


def test_several_workers_are_what_they_always_were() -> None:
    w = World(node("a", cpus=6), policy="cores-strict")
    w.submit(job(1, cpus=2, workers=2), ranged(2, 1, 2))
    assert sorted(lease.amounts[CPUS] for lease in leases_of(w.state).values()) == [2, 2, 2]
    assert len(w.state.attempts[JobId(1)].workers) == 2


def test_it_waits_for_who_leaves_before_it_grows() -> None:
    w = World(node("a", cpus=4), node("b", cpus=4), policy="cores-attend")
    w.submit(ranged(1, 1, 4), ranged(2, 4, 4))
    w.exited(1)
    w.submit(ranged(3, 2, 2, preemptible="true"), ranged(4, 1, 4))
    for number in (2, 3, 4):
        w.started(number)
    assert leased(w) == {2: 4, 3: 2, 4: 2}
    w.exited(2)
    w.cycle(ev.MigrateAsked(w.now, JobId(3), w.state.ledger.node("b").name, "ann"))  # type: ignore[union-attr, arg-type]
    assert w.job(3).state is JobState.STOPPING
    assert leased(w) == {3: 2, 4: 2}, "its place is promised, and not free yet"
    w.exited(3, KILLED)
    assert leased(w) == {3: 2, 4: 4}


# --- whatever happens

_steps = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.sampled_from([0.1, 0.5, 1, 2]), st.sampled_from([0, 0.5, 1, 3])),
        st.tuples(st.sampled_from(["exit", "cancel", "start", "limit", "die"]), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("switch"), st.sampled_from([*ALL, "fifo", "tiresias"]), st.just(0)),
    ),
    max_size=40,
)


def do(w: World, step: tuple[str, Any, float], number: int) -> None:
    kind, what, more = step
    running = w.running()
    target = JobId(running[what % len(running)]) if running and isinstance(what, int) else None
    if kind == "submit":
        w.submit(ranged(number, what, what + more, preemptible="auto" if number % 2 else "true"))
    elif kind == "switch":
        switch(w, what)
    elif kind == "die":
        again(w)
    elif target and kind == "start":
        w.started(target)
    elif target and kind == "limit":
        w.cycle(ev.UpdateAsked(w.now, target, "ann", {"cpus_limit": 0.5 + what}))
    elif target and kind == "cancel":
        w.cycle(ev.CancelAsked(w.now, target, "ann"))
    elif target:
        w.exited(target, OK)


def check(w: World) -> None:
    for ledger in w.state.ledger:
        promised = sum(
            j.shape.per_worker[CPUS] for j in w.state.jobs.values() for s in j.placements if s.node == ledger.name
        )
        assert abs(ledger.node.capacity[CPUS] - promised - ledger.free[CPUS]) < 1e-6
        held = sum(lease.amounts[CPUS] for lease in leases_of(w.state).values() if lease.node == ledger.name)
        assert held <= ledger.node.capacity[CPUS] + 1e-6, "the sum of what is granted fits the machine"
    for worker, lease in leases_of(w.state).items():
        one = w.job(worker.job)
        if one.stop is None and one.id not in w.state.growing:
            assert lease.amounts == one.shape.per_worker
            assert not one.cores or lease.amounts[CPUS] == one.cores >= one.cpus
    for waiting in w.state.queue:
        assert (waiting.cores, waiting.shape.slots) == (0, waiting.spec.resources.cpus_min)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=2), _steps, st.sampled_from(ALL))
@settings(max_examples=150, deadline=None)
def test_what_is_leased_is_what_was_granted_and_it_fits(cpus, steps, preset) -> None:  # type: ignore[no-untyped-def]
    w = World(*(node(f"n{i}", cpus=n) for i, n in enumerate(cpus)), policy=preset)
    for number, step in enumerate(steps, 1):
        before = {n: (j.attempt, j.cores) for n, j in w.state.jobs.items()}
        do(w, step, number)
        check(w)
        for n, (attempt, cores) in before.items():
            now = w.state.jobs.get(n)
            if now and now.attempt == attempt and now.stop is None and n in w.state.attempts and step[0] != "die":
                assert now.cores >= cores, "nobody loses any while it runs"
