"""The scheduler and nodes that fall silent: how long they are waited for, over restarts too; adding and removing."""

from dataclasses import replace
from typing import Any

import pytest

from schedulearn.core.domain import events as ev
from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.node import Node, NodeState
from schedulearn.service.common.config import DataFolder
from schedulearn.store import Store
from support.builders import KILLED, node
from support.clock import HandClock
from support.scheduling import Bench

A = NodeName("a")
LOST_AFTER = 300.0  # the scheduler's default


class FakeKeeper:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.events: list[ev.Event] = []

    def ensure(self, saved: Any, busy: Any) -> list[ev.Event]:
        self.calls.append(("ensure", [n.name for n in saved], sorted(busy)))
        return self.events

    def add(self, found: Node, seen: Node | None = None) -> None:
        self.calls.append(("add", found.name, seen is not None))

    def remove(self, name: NodeName) -> None:
        self.calls.append(("remove", name))

    def examine(self, request: Any) -> None:
        self.calls.append(("examine", request.data["name"]))


@pytest.fixture
def bench(store: Store, folder: DataFolder, clock: HandClock) -> Bench:
    return Bench(store, folder, clock, node("a", cpus=1), node("b", cpus=1))


def fall_silent(bench: Bench, which: str = "a") -> None:
    """As a fleet says it: the node is lost, since now."""
    bench.executor.has = [
        replace(n, state=NodeState.LOST, lost_at=bench.clock.now(), problem="it is frozen") if n.name == which else n
        for n in bench.executor.has
    ]
    bench.scheduler.post(ev.NodeLost(bench.clock.now(), NodeName(which), "it is frozen"))


def come_back(bench: Bench, which: str = "a") -> None:
    bench.executor.has = [node(n.name, cpus=1) if n.name == which else n for n in bench.executor.has]
    bench.scheduler.post(ev.NodeSeen(bench.clock.now(), node(which, cpus=1)))


def stored(bench: Bench, name: str = "a") -> Node:
    return next(n for n in bench.store.list_nodes() if n.name == name)


def test_back_in_time_nothing_is_lost(bench: Bench) -> None:
    job = bench.running()
    fall_silent(bench)
    assert bench.cycle() == []
    assert (stored(bench).state, stored(bench).problem) == (NodeState.LOST, "it is frozen")
    for _ in range(9):
        assert bench.cycle(LOST_AFTER / 10) == []
    come_back(bench)
    assert bench.cycle() == []
    assert (stored(bench).state, stored(bench).lost_at) == (NodeState.UP, None)
    assert (bench.state(job), bench.job(job).attempt) == ("running", 1)


def test_away_for_too_long_its_jobs_go_on_elsewhere(bench: Bench) -> None:
    job = bench.running()
    fall_silent(bench)
    bench.cycle()
    assert bench.cycle(LOST_AFTER) == [("stop", "1.1.0", 0.0), ("start", "1.2.0")]
    assert bench.job(job).restarts == 0
    assert "5 min" in next(e.event.cause for e in bench.store.events_after(0) if e.event.kind == "worker_exited")
    come_back(bench)
    bench.cycle()
    bench.exited("1.1.0", KILLED)
    assert bench.cycle() == []
    assert bench.state(job) == "starting", "the end of the stale attempt is nobody's business"


def test_the_time_goes_on_while_the_service_is_away(bench: Bench) -> None:
    bench.running()
    fall_silent(bench)
    bench.cycle()
    bench.clock.pass_time(2 * LOST_AFTER)
    bench.live()
    assert ("start", "1.2.0") in bench.cycle()


def test_nothing_is_given_up_before_the_node_was_asked_again(bench: Bench) -> None:
    """After a restart the fleet knows nothing of a node until it has answered, or has not."""
    job = bench.running()
    fall_silent(bench)
    bench.cycle()
    lost, bench.executor.has = bench.executor.has, [bench.executor.has[1]]
    bench.clock.pass_time(2 * LOST_AFTER)
    bench.live()
    bench.cycle(60.0)
    assert bench.job(job).attempt == 1
    bench.executor.has = lost
    come_back(bench)
    bench.cycle()
    assert (bench.job(job).attempt, stored(bench).state) == (1, NodeState.UP)


def test_old_news_of_a_node_are_not_believed(bench: Bench) -> None:
    bench.cycle()
    bench.scheduler.post(ev.NodeLost(bench.clock.now(), A, "an hour ago"))
    bench.cycle()
    assert stored(bench).state is NodeState.UP, "the fleet says that it is well"


# --- with a node_manager


@pytest.fixture
def kept(bench: Bench) -> tuple[Bench, FakeKeeper]:
    node_manager = FakeKeeper()
    bench.scheduler._node_manager = node_manager
    return bench, node_manager


def test_adding_is_examined_recorded_and_then_done(kept: tuple[Bench, FakeKeeper]) -> None:
    bench, node_manager = kept
    bench.ask("node_add", name="c", request="r1")
    bench.cycle()
    assert node_manager.calls == [("examine", "c")]
    bench.scheduler.post(ev.NodeProbed(bench.clock.now(), NodeName("c"), node("c"), "ann", "r1"))
    bench.cycle()
    assert node_manager.calls[1:] == [("add", "c", True)]
    assert stored(bench, "c") == node("c")
    assert bench.store.events_after(0)[-1].event.data == {"request": "r1", "notes": []}


def test_removing_is_recorded_and_then_done(kept: tuple[Bench, FakeKeeper]) -> None:
    bench, node_manager = kept
    bench.cycle()
    bench.ask("node_remove", node="a", force=False)
    bench.cycle()
    assert node_manager.calls == [("remove", "a")]
    assert [n.name for n in bench.store.list_nodes()] == ["b"]


def test_labels_are_recorded(kept: tuple[Bench, FakeKeeper]) -> None:
    bench, _ = kept
    bench.cycle()
    bench.ask("node_labels", node="a", labels=[["room", "b12"]])
    bench.cycle(60.0)  # the nodes are looked at in this very cycle
    assert stored(bench).labels == (("room", "b12"),)


def test_after_a_restart_the_keeper_is_told_what_there_is(kept: tuple[Bench, FakeKeeper]) -> None:
    bench, node_manager = kept
    bench.running()
    node_manager.events = [ev.DrainAsked(bench.clock.now(), A, "the service", True)]
    bench.scheduler.recover()
    assert node_manager.calls == [("ensure", ["a", "b"], ["a"])]
    bench.cycle()
    assert stored(bench).state is NodeState.DRAINING
