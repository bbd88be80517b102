"""A fleet of fake executors: routing, nodes that come and go, and one that is stuck."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from schedulearn.core.domain.events import WorkerExited
from schedulearn.core.domain.group import Group
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.node import NodeState
from schedulearn.core.domain.outcome import Ending
from schedulearn.core.domain.ports import Launch
from schedulearn.executors.fleet import Fleet
from support.builders import node, spec
from support.clock import HandClock
from support.executor import FakeExecutor
from support.waiting import wait_until

A, B = NodeName("a"), NodeName("b")
WORKER = WorkerId(JobId(1), 1, 0)


class World:
    def __init__(self) -> None:
        self.events: list[Any] = []
        self.fleet = Fleet(self.events.append, HandClock())
        self.a, self.b = FakeExecutor(node("a")), FakeExecutor(node("b"))
        self.fleet.add(A, self.a)
        self.fleet.add(B, self.b)

    def calls(self, executor: FakeExecutor, count: int = 1) -> list[tuple[object, ...]]:
        wait_until(lambda: len(executor.calls) >= count)
        return executor.take_calls()


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.fleet.close()


def test_each_call_goes_to_the_executor_of_its_node(world: World) -> None:
    world.fleet.start(Launch(WORKER, B, spec()))
    world.fleet.adopt(WORKER, B)
    world.fleet.pause(WORKER, B)
    world.fleet.resume(WORKER, B)
    world.fleet.regroup(WORKER, B, Group(1, (0, 2)))
    world.fleet.stop(WORKER, B, 3.0)
    expected = [("start", "1.1.0"), ("adopt", "1.1.0"), ("pause", "1.1.0"), ("resume", "1.1.0")]
    assert world.calls(world.b, 6) == [*expected, ("regroup", "1.1.0", 1, (0, 2)), ("stop", "1.1.0", 3.0)]
    assert world.a.calls == []


def test_what_concerns_a_job_goes_to_all(world: World) -> None:
    world.fleet.forget(JobId(7))
    assert world.calls(world.a) == world.calls(world.b) == [("forget", 7)]
    assert not world.fleet.has_checkpoint(JobId(7))
    world.b.has_checkpoint = lambda job: job == 7  # type: ignore[method-assign]
    assert world.fleet.has_checkpoint(JobId(7))


def test_nodes_come_and_go(world: World) -> None:
    assert [n.name for n in world.fleet.nodes()] == ["a", "b"]
    world.fleet.remove(A)
    assert [n.name for n in world.fleet.nodes()] == ["b"]
    assert world.fleet.executor_of(A) is None
    world.fleet.add(A, FakeExecutor(), lambda: [node("a", state=NodeState.LOST)])
    assert {n.name: n.state for n in world.fleet.nodes()} == {"b": NodeState.UP, "a": NodeState.LOST}
    world.fleet.remove(NodeName("never"))


def test_a_worker_on_a_node_that_is_gone_is_lost(world: World) -> None:
    world.fleet.remove(A)
    world.fleet.adopt(WORKER, A)
    (event,) = world.events
    assert isinstance(event, WorkerExited)
    assert (event.worker, event.outcome.ending) == (WORKER, Ending.LOST)
    assert "no node a" in event.outcome.detail


def test_one_that_is_stuck_delays_neither_the_others_nor_who_asks(world: World) -> None:
    stuck, entered = threading.Event(), threading.Event()

    def block(*_: object) -> None:
        entered.set()
        stuck.wait()

    world.a.stop = block  # type: ignore[method-assign]
    world.fleet.stop(WORKER, A, 0.0)
    assert entered.wait(30)
    world.fleet.start(Launch(WORKER, A, spec()))
    world.fleet.start(Launch(WORKER, B, spec()))
    assert world.calls(world.b) == [("start", "1.1.0")]
    world.fleet.remove(A)  # returns although the executor does not
    stuck.set()
    assert world.calls(world.a) == [("start", "1.1.0")], "what it was told before is still passed on, in order"


def test_an_executor_that_fails_goes_on(world: World, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    world.a.pause = fail  # type: ignore[method-assign]
    world.fleet.pause(WORKER, A)
    world.fleet.resume(WORKER, A)
    assert world.calls(world.a) == [("resume", "1.1.0")]
    assert "broken" in caplog.text
