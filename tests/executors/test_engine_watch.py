"""Watching real engines: one that is frozen, stopped and back; and that nobody waits for another's answer."""

import queue
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.events import NodeLost, NodeSeen
from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.node import Device, Node, NodeState
from schedulearn.executors.docker.connect import Engine
from schedulearn.executors.docker.watch import EngineWatch
from support.waiting import wait_until

PATIENCE = 60.0  # only matters when something is broken


class Clock:
    def now(self) -> float:
        return time.time()


class Watched:
    def __init__(self, address: str, seen: Node | None = None, gpus: bool = True) -> None:
        self.events: queue.Queue[Any] = queue.Queue()
        self.engine = Engine(address)
        node = Node(NodeName("gpu2"), "docker", address=address, labels=(("gpu-type", "A100"),))
        self.watch = EngineWatch(
            self.engine, node, self.events.put, Clock(), seen=seen, gpus=gpus,
            period=0.05, answer_within=1.0, lost_after=3600.0,
        )  # fmt: skip
        self.watch.start()

    def may_be_lost(self, may: bool = True) -> None:
        """Only when a test wants it: an engine that is slow to answer is not to be lost."""
        self.watch._lost_after = 0.5 if may else 3600.0

    def next(self, kind: type[Any]) -> Any:
        event = self.events.get(timeout=PATIENCE)
        assert isinstance(event, kind), event
        return event

    def close(self) -> None:
        self.watch.close()
        self.watch._thread.join(PATIENCE)
        self.engine.close()


@pytest.fixture
def watch() -> Iterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def make(*args: Any, **more: Any) -> Watched:
        made.append(Watched(*args, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_an_engine_that_answers_is_seen_once(daemons: Any, watch: Any) -> None:
    watched = watch(daemons(0).address)
    node = watched.next(NodeSeen).node
    assert (node.name, node.state) == ("gpu2", NodeState.UP)
    assert node.version.startswith("Docker")
    wait_until(lambda: watched.watch.node == node)
    assert watched.events.empty()


@pytest.mark.parametrize(("away", "back"), [("freeze", "thaw"), ("stop", "start")])
def test_an_engine_that_falls_silent_is_lost_and_comes_back(daemons: Any, watch: Any, away: str, back: str) -> None:
    daemon = daemons(1)
    watched = watch(daemon.address)
    first = watched.next(NodeSeen).node
    getattr(daemon, away)()
    watched.may_be_lost()
    try:
        lost = watched.next(NodeLost)
        assert lost.node == "gpu2"
        assert ("does not answer" if away == "freeze" else "no socket") in lost.why
        node = watched.watch.node
        assert (node.state, node.problem, node.lost_at) == (NodeState.LOST, lost.why, lost.at)
        assert node.capacity == first.capacity, "what it has is still known"
    finally:
        watched.may_be_lost(False)
        getattr(daemon, back)()
    assert watched.next(NodeSeen).node == first
    assert watched.events.empty(), "it was lost once and came back once"


def test_nothing_is_said_of_an_engine_before_it_is_known(tmp_path: Path, watch: Any) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "s"))
        silent.listen()
        watched = watch(f"unix://{tmp_path}/s")
        assert watched.watch.node is None
        watched.may_be_lost()
        watched.next(NodeLost)
        assert watched.watch.node.state is NodeState.LOST


def test_what_was_found_a_moment_ago_is_not_told_again(daemons: Any, watch: Any) -> None:
    found = watch(daemons(0).address).next(NodeSeen).node
    watched = watch(daemons(0).address, seen=found)
    assert watched.watch.node == found
    wait_until(lambda: watched.watch.node is not found)
    assert watched.events.empty()


def test_outside_use_of_a_gpu_is_noticed_where_it_can_be(
    daemons: Any, watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no GPU here: NVML's answer is played."""
    device = Device("GPU-1", model="NVIDIA A100", outside_use="process 7 holds 2 GB")  # type: ignore[arg-type]
    monkeypatch.setattr("schedulearn.executors.docker.probe.can_give_gpus", lambda info: True)
    monkeypatch.setattr("schedulearn.executors.docker.gpus.gpu_devices", lambda own: (device,))
    node = watch(daemons(0).address).next(NodeSeen).node
    assert node.devices == (replace(device, model="A100"),), "its type is what the label says"
    assert node.usable["gpus"] == 0
    assert watch(daemons(0).address, gpus=False).next(NodeSeen).node.devices == ()
