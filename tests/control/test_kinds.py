"""Shapes that ask for about as much are refused by kind, which changes no decision."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.control import queue
from schedulearn.core.control.allocation import Decision
from schedulearn.core.control.decide import decide
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.shape import Shape
from schedulearn.core.domain.spec import Launcher, Preemptible
from schedulearn.core.domain.states import JobState
from schedulearn.core.policies.stages import Allocate, Allocation
from support.builders import OK, World, job, node
from support.facts import AssumedFacts

PRESETS = [
    "fifo", "srjf", "srtf", "srsf", "edf", "tiresias", "gandiva", "elastic-fifo", "elastic-srjf", "k8s-default",
    "schedulearn",
]  # fmt: skip


class Durations(AssumedFacts):
    """All different, known from the start."""

    def duration(self, job: Job) -> float:
        return 60.0 + job.id * 7919 % 5000

    def remaining(self, job: Job, now: float) -> float:
        return self.duration(job) - job.ran.at(now)


class EachByItself(Allocate):
    """The same stage, that does not say what it tries: the first job of each shape is shown to it."""

    def __init__(self, stage: Any) -> None:
        self._stage, self.elastic, self.enough = stage, stage.elastic, stage.enough

    def allocate(self, allocation: Allocation) -> float | None:
        wake: float | None = self._stage.allocate(allocation)
        return wake


@pytest.fixture(autouse=True)
def kinds_of_any_number() -> Iterator[None]:
    """Few shapes are enough."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue, "_MANY_SHAPES", -1)
        yield


def world(preset: str) -> World:
    params = {"quantum": "20"} if preset == "gandiva" else {}
    nodes = (node("a", cpus=8, memory=16e9), node("b", cpus=4, memory=32e9), node("c", cpus=6, gpus=4, memory=24e9))
    return World(*nodes, policy=preset, facts=Durations(), params=params)


_sizes = st.sampled_from([1, 1, 2, 3, (1, 2, 4), (2, 3, 3)])
_asked = st.fixed_dictionaries(
    {
        "gpus": st.sampled_from([0, 0, 0, 1, 2]),
        "cpus": st.integers(1, 60).map(lambda tenths: tenths / 10),
        "memory": st.one_of(st.none(), st.integers(1, 30).map(lambda gigabytes: gigabytes * 10**9)),
        "workers": _sizes,
        "preemptible": st.sampled_from([Preemptible.YES, Preemptible.NO]),
        "priority": st.sampled_from([0, 0, 0, 5]),
        "launcher": st.sampled_from([Launcher.COMMAND, Launcher.COMMAND, Launcher.HOROVOD]),
    }
)
_submission = st.tuples(st.just("submit"), st.lists(_asked, min_size=1, max_size=8))
_end = st.tuples(st.just("end"), st.integers(0, 20))
_wait = st.tuples(st.just("wait"), st.sampled_from([1.0, 30.0, 1800.0, 4000.0]))
_steps = st.lists(st.one_of(_submission, _submission, _end, _wait), min_size=1, max_size=12)


def told(decision: Decision) -> tuple[object, ...]:
    return decision.stops, decision.grants, decision.wake_at, decision.memory


def step(w: World, kind: str, what: Any, first: int) -> Decision:
    if kind == "submit":
        return w.cycle(*(ev.Submitted(w.now, job(first + n, at=w.now, **asked)) for n, asked in enumerate(what)))
    running = sorted(number for number in w.state.attempts if w.job(number).state is JobState.RUNNING)
    if kind == "end" and running:
        number = running[what % len(running)]
        workers = w.state.attempts[number].running
        return w.cycle(*(ev.WorkerExited(w.now, worker.id, OK) for worker in workers))
    w.now += what if kind == "wait" else 0.0
    return w.cycle()


def go_on(w: World) -> None:
    """Whoever was told to start or stop does so."""
    for number in list(w.state.attempts):
        if w.job(number).state is JobState.STARTING:
            w.started(number)
    w.settle()


@pytest.mark.parametrize("preset", PRESETS)
@settings(max_examples=25, deadline=None)
@given(_steps)
def test_by_kind_and_each_by_itself(preset: str, steps: list[tuple[str, Any]]) -> None:
    quick, slow = world(preset), world(preset)
    slow.policy = replace(slow.policy, allocate=EachByItself(slow.policy.allocate))
    for number, (kind, what) in enumerate(steps):
        decided = [told(step(w, kind, what, 1 + 100 * number)) for w in (quick, slow)]
        assert decided[0] == decided[1]
        assert quick.state.stale == slow.state.stale
        go_on(quick)
        go_on(slow)


def now(w: World, *shown: Shape) -> Decision:
    state = w.state
    return decide(w.policy, state.queue, state.ledger, state.adjustable, w.now, state.memory, shown)


def full_node(preset: str = "fifo", waiting: int = 200) -> World:
    """One job has all cores but one; as many others wait as are asked for, no two of which ask for the same."""
    w = World(node("a", cpus=8), policy=preset)
    w.submit(job(1, cpus=7))
    w.started(1)
    w.submit(*(job(2 + n, cpus=2 + n / waiting, memory=10**9 + n) for n in range(waiting)))
    return w


def test_who_cannot_fit_is_not_even_looked_at() -> None:
    w = full_node()
    decision = now(w)
    assert not decision.refusals
    assert sum(len(kind.heads) for kind in decision.passed) == 200
    assert len(decision.passed) < 10


def test_what_is_asked_for_is_told_of_exactly() -> None:
    w = full_node()
    last = w.job(201)
    assert now(w, last.shape).refusals.keys() == {last.shape}


def test_a_newcomer_that_fits_is_found_among_those_that_do_not() -> None:
    w = full_node()
    assert w.submit(job(900, cpus=0.5)) == [900]


def test_who_has_waited_for_too_long_reserves_its_place() -> None:
    w = full_node()
    assert now(w).wake_at == 3600.0
    w.now = 3600.0
    assert w.submit(job(900, cpus=0.5)) == [], "the first of the queue has reserved the node"
    assert set(now(w).refusals) >= {w.job(2).shape}


@pytest.mark.parametrize(
    ("more", "less"),
    [
        ({"cpus": 2.4}, {"cpus": 2.0}),
        ({"cpus": 1, "memory": int(2.4e9)}, {"cpus": 1, "memory": int(2e9)}),
        ({"cpus": 0.25, "workers": 9}, {"cpus": 0.25, "workers": 8}),
        ({"cpus": 0.25, "workers": (9, 9, 9)}, {"cpus": 0.25, "workers": (8, 9, 9)}),
    ],
)
@pytest.mark.parametrize("preset", ["fifo", "elastic-fifo", "schedulearn"])
def test_one_that_asks_for_a_little_less_than_the_others_of_its_kind(
    preset: str, more: dict[str, Any], less: dict[str, Any]
) -> None:
    """In any order of coming, and again after those that asked for less are gone."""
    w = World(node("a", cpus=8, memory=8e9), policy=preset)
    w.submit(job(1, cpus=5.9, memory=int(5.9e9)))
    w.started(1)
    assert w.submit(job(2, **more), job(3, **more)) == []
    fits = 4 if preset != "fifo" or less.get("workers") != (8, 9, 9) else None
    assert w.submit(job(4, **less)) == ([fits] if fits else [])
    assert w.submit(job(5, **more)) == []
