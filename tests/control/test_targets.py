"""Jobs whose training is good enough: they end, or make way for all others."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schedulearn.core.control.allocation import Undo, place_workers
from schedulearn.core.control.explain import explain
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.commands import StopWorker
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.spec import Metric, Preemptible, Target
from schedulearn.core.domain.states import JobState
from schedulearn.core.policies.catalogue.presets import PRESETS
from support.builders import KILLED, World, job, node
from support.walks import do

LOSS = Target(0.05)


def aims(number: int, target: Target = LOSS, **more: Any) -> Job:
    return job(number, target=target, **{"preemptible": Preemptible.YES, **more})


def reached(w: World, number: int, target: Target = LOSS) -> None:
    w.cycle(ev.TargetReached(w.now, JobId(number), target, 0.04, (0.06, 0.04, 0.03)))


def running(w: World, *jobs: Job) -> None:
    w.submit(*jobs)
    for one in jobs:
        w.started(one.id)


# --- stop


def test_it_saves_stops_and_has_succeeded() -> None:
    w, stops = World(node("a")), Target(0.05, "stop")
    running(w, aims(1, stops, max_restarts=3))
    w.now = 7.0
    reached(w, 1, stops)
    assert [type(command) for command in w.commands] == [StopWorker], "with its grace, as for any stop"
    assert w.commands[0].grace == 30.0
    one = w.job(1)
    assert (one.state, one.reached_at) == (JobState.STOPPING, 7.0)
    w.exited(1, KILLED)
    assert one.state is JobState.SUCCEEDED
    assert one.reason == "its target is reached: loss is 0.04, at most 0.05 was asked for"
    told = next(event for event in w.history if event.kind == "target_reached")
    assert told.data == {
        "metric": "loss", "goal": "min", "target": 0.05, "then": "stop", "value": 0.04, "values": [0.06, 0.04, 0.03],
    }  # fmt: skip


def test_those_that_wait_for_it_go_on() -> None:
    w, stops = World(node("a")), Target(0.05, "stop")
    running(w, aims(1, stops))
    w.submit(job(2, depends_on=(JobId(1),)))
    reached(w, 1, stops)
    assert w.exited(1, KILLED) == [2]


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (ev.UpdateAsked(0.0, JobId(1), "ann", {"target": {"value": 0.01, "then": "stop"}}), "another one was set"),
        (ev.UpdateAsked(0.0, JobId(1), "ann", {"target": None}), "it was taken away"),
        (ev.PauseAsked(0.0, JobId(1), "ann"), "it stands still: it is looked at again when it runs"),
        (ev.CancelAsked(0.0, JobId(1), "ann"), "it ends anyway"),
    ],
)
def test_news_of_a_target_that_no_longer_counts_are_ignored(event: ev.Event, why: str) -> None:
    w = World(node("a"))
    running(w, aims(1))
    w.cycle(event, ev.TargetReached(0.0, JobId(1), LOSS, 0.04, (0.04, 0.04, 0.04)))
    assert w.job(1).reached_at is None, why
    assert not [event for event in w.history if event.kind == "target_reached"]


# --- yield


@pytest.mark.parametrize("preset", ["fifo", "srtf", "tiresias", "elastic-fifo", "ffdl", "afs-l", "edf"])
def test_whoever_waits_takes_its_place_under_any_order(preset: str) -> None:
    w = World(node("a", cpus=2), policy=preset)
    running(w, aims(1, workers=2, priority=90))
    w.submit(job(2, workers=2, priority=10))
    before = w.running()
    reached(w, 1)
    w.settle()
    assert before == [1]
    assert w.running() == [2], "whatever its priority"
    assert w.job(1).preemptions == 1
    assert w.exited(2) == [1], "and it trains on with what others leave"


NOBODY_LEAVES = ("cores-strict", "cores-attend", "cores-proportional", "gandiva", "gandiva-grow", "gandiva-pack")


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_it_gives_up_its_memory_where_there_are_cores_enough(preset: str) -> None:
    w = World(node("a", cpus=8, memory=8e9), policy=preset)
    running(w, aims(1, memory=6_000_000_000))
    w.submit(job(2, memory=4_000_000_000))
    reached(w, 1)
    w.settle()
    assert w.running() == ([1] if preset in NOBODY_LEAVES else [2])


def test_as_few_leave_as_it_takes_the_last_first() -> None:
    w = World(node("a", memory=10e9), node("b", memory=4e9))
    sizes = {1: 4_000_000_000, 2: 1_000_000_000, 3: 2_000_000_000, 4: 3_000_000_000, 5: 4_000_000_000}
    running(w, *(aims(number, memory=size) for number, size in sizes.items()))
    for number in (1, 2, 3, 4):
        reached(w, number)
    w.submit(job(6, memory=4_000_000_000))
    w.settle()
    assert w.running() == [1, 2, 5, 6], "3 and 4 are the last that leave room; 2 is in nobody's way, 5 still learns"


def test_a_job_that_would_find_no_place_even_so_disturbs_nobody() -> None:
    w = World(node("a", memory=8e9))
    running(w, aims(1, memory=4_000_000_000), job(2, memory=4_000_000_000))
    reached(w, 1)
    w.submit(job(3, memory=6_000_000_000))
    w.settle()
    assert (w.running(), w.commands) == ([1, 2], [])


def test_a_job_that_has_reached_its_own_drives_no_other_away() -> None:
    w = World(node("a", memory=8e9))
    running(w, aims(1, memory=6_000_000_000))
    w.submit(aims(2, memory=6_000_000_000))
    reached(w, 1)
    w.settle()
    w.started(2)
    reached(w, 2)
    assert (w.running(), w.commands) == ([2], [])


@pytest.mark.parametrize("preset", ["cores-strict", "cores-attend", "cores-proportional"])
def test_where_whole_cores_are_given_out_nobody_who_runs_loses_any(preset: str) -> None:
    w = World(node("a", cpus=2), policy=preset)
    running(w, aims(1, cpus=2.0, priority=90))
    w.submit(job(2, cpus=2.0, priority=10))
    reached(w, 1)
    w.settle()
    assert w.running() == [1]
    assert w.exited(1) == [2]


def test_one_that_may_not_be_interrupted_is_not() -> None:
    w = World(node("a", cpus=1))
    running(w, aims(1, preemptible=Preemptible.AUTO))
    w.submit(job(2))
    reached(w, 1)
    assert (w.running(), w.commands) == ([1], [])
    w.cycle(ev.CheckpointSeen(w.now, JobId(1)))
    assert [type(command) for command in w.commands] == [StopWorker], "once it has saved it is"


def test_where_nobody_is_interrupted_those_that_have_reached_theirs_leave_each_other_alone() -> None:
    w = World(node("a", cpus=1))
    running(w, aims(1))
    w.submit(aims(2))
    reached(w, 1)
    w.settle()
    w.started(2)
    reached(w, 2)
    assert (w.running(), w.commands) == ([2], []), "1 was first, but waits: both are equals now"


def test_it_is_the_first_to_be_interrupted_and_no_more_than_needed() -> None:
    w = World(node("a", cpus=3), policy="tiresias")
    running(w, *(aims(number) for number in (1, 2, 3)))
    reached(w, 1)
    w.submit(job(4))
    w.settle()
    assert w.running() == [2, 3, 4]


def test_another_target_brings_it_back() -> None:
    w = World(node("a", cpus=1), policy="tiresias")
    running(w, aims(1))
    reached(w, 1)
    assert w.job(1).yields
    w.cycle(ev.UpdateAsked(w.now, JobId(1), "ann", {"target": {"value": 0.01, "then": "yield"}}))
    assert (w.job(1).reached_at, w.job(1).spec.target) == (None, Target(0.01))
    assert w.history[-1].cause == "target 0.01, then yield, set by ann"
    w.submit(job(2))
    assert w.running() == [1]


@pytest.mark.parametrize("preset", ["elastic-fifo", "elastic-tiresias", "ffdl", "afs-l"])
def test_more_than_the_least_only_when_all_others_have_enough(preset: str) -> None:
    w = World(node("a", cpus=6), policy=preset)
    running(w, aims(1, workers=(1, 1, 4)), aims(2, workers=(1, 1, 4)))
    w.settle()
    reached(w, 1)
    w.settle()
    assert {number: w.job(number).workers for number in (1, 2)} == {1: 2, 2: 4}


def test_explain_says_so() -> None:
    w = World(node("a", cpus=1))
    running(w, aims(1, metric=Metric("acc", "max"), target=Target(0.9)))
    words = explain(w.state, w.policy, w.job(1), 0.0, lambda _: None).text
    assert words.endswith("Its target is acc at least 0.9: then others go first.")
    reached(w, 1, Target(0.9))
    words = explain(w.state, w.policy, w.job(1), 60.0, lambda _: None).text
    assert words.endswith("It reached its target (acc at least 0.9) 1 min ago: others go first.")


_sizes = st.tuples(st.integers(0, 2), st.sampled_from([0.5, 1, 2]), st.integers(1, 3), st.integers(0, 2))
_acts = st.tuples(st.sampled_from(["exit", "start", "wait", "good", "good", "leave", "still"]), st.integers(0, 30))
_walks = st.lists(st.one_of(st.tuples(st.just("submit"), _sizes), _acts), max_size=40)


@given(_walks, st.sampled_from(sorted(PRESETS)))
@example([("submit", (0, 2, 2, 0)), ("start", 0), ("good", 1), ("submit", (0, 2, 2, 0))], "fifo")
@settings(max_examples=150, deadline=None)
def test_nobody_waits_for_what_a_job_has_that_yields(walk: list[Any], preset: str) -> None:
    w = World(node("n0", cpus=4, gpus=2), node("n1", cpus=2), policy=preset, params=_without_guard(preset))
    _walked(w, walk)


@given(_walks, st.sampled_from(sorted({*PRESETS} - {*NOBODY_LEAVES})))
@settings(max_examples=150, deadline=None)
def test_nobody_waits_for_the_memory_of_a_job_that_yields(walk: list[Any], preset: str) -> None:
    w = World(
        node("n0", cpus=64, gpus=8, memory=4e9), node("n1", cpus=64, memory=2e9), policy=preset,
        params=_without_guard(preset),
    )  # fmt: skip
    _walked(w, walk)


def _walked(w: World, walk: list[Any]) -> None:
    numbers: list[int] = []
    for step in walk:
        do(w, step, numbers)
    for _ in range(3):  # a first decision may only be about who leaves
        w.settle()
        w.state.stale = True
        w.cycle()
    w.settle()
    _nobody_waits_behind(w)


def _nobody_waits_behind(w: World) -> None:
    yielding = [one for pool in w.state.adjustable.values() for one in pool.values() if one.yields]
    for waiting in [one for one in w.state.queue if not one.yields]:
        undo = Undo(w.state.ledger)
        if place_workers(waiting, waiting.shape.workers.want, w.policy, w.state.ledger, undo, dict(w.memory)):
            undo.all()
            continue  # it waits for something else
        for one in yielding:
            undo.give_back(one.shape.rest if w.policy.order.suspends else one.shape, one.placements)
        found = place_workers(waiting, waiting.shape.workers.want, w.policy, w.state.ledger, undo, dict(w.memory))
        undo.all()
        assert found is None, f"job {waiting.id} would fit in the place of those that have reached their target"


def _without_guard(preset: str) -> dict[str, str]:
    return {"starvation_guard": "off"} if PRESETS[preset].allocate == "rigid" else {}
