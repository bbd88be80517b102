"""Which nodes there are: this machine in its three ways, engines from the store, and GPUs that are given out once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain import events as ev
from schedulearn.core.domain.errors import SchedulearnError
from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.node import Node
from schedulearn.service.common.config import DataFolder, Options
from schedulearn.service.nodes import node_manager as module
from schedulearn.service.nodes.node_manager import LOCAL, LOCAL_DOCKER, NodeManager
from schedulearn.store import Request
from support.builders import node
from support.clock import HandClock
from support.waiting import wait_until

REMOTE = Node(NodeName("gpu2"), "docker", address="tcp://gpu2:2376")


class World:
    """Keepers over one data folder. Nothing listens where their engines should be."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.posted: list[Any] = []
        self._managers: list[NodeManager] = []

    def node_manager(self, executor: str = "process", **more: Any) -> NodeManager:
        options = Options(self.folder, executor=executor, **more)
        self._managers.append(NodeManager(DataFolder(self.folder), options, HandClock(), self.posted.append))
        return self._managers[-1]

    def close(self) -> None:
        for node_manager in self._managers:
            node_manager.close()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    here = node("local", cpus=8, gpus=2, memory=64e9)
    monkeypatch.setattr(module, "discover_node", lambda name: replace(here, name=name))
    monkeypatch.setattr("schedulearn.executors.process.executor.gpu_devices", lambda own: here.devices)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    world = World(tmp_path / "data")
    yield world
    world.close()


def test_this_machine_is_one_node(world: World) -> None:
    node_manager = world.node_manager()
    assert node_manager.ensure([], ()) == []
    [found] = node_manager.fleet.nodes()
    assert (found.name, found.executor, found.capacity["gpus"]) == ("local", "process", 2)
    assert world.node_manager("docker")._local.keys() == {LOCAL_DOCKER}


def test_or_two_that_share_it(world: World) -> None:
    local = world.node_manager("both", image="python")._local
    assert [(n.reserved["cpus"], n.reserved["memory"]) for n in local.values()] == [(4, 32e9), (4, 32e9)]
    assert (local[LOCAL].devices, local[LOCAL].capacity["gpus"]) == ((), 0), "GPUs belong to the containers"
    assert local[LOCAL_DOCKER].default_image == "python"


def test_gpus_are_given_out_once(world: World) -> None:
    engine = replace(REMOTE, address="unix:///srv/docker.sock")
    assert not world.node_manager("process")._has_gpus(engine), "this machine's processes have them"
    assert world.node_manager("both")._has_gpus(engine)
    assert world.node_manager("process")._has_gpus(REMOTE), "those of another machine"


def test_engines_of_the_store_are_in_the_fleet_and_nothing_is_said_of_them_yet(world: World) -> None:
    node_manager = world.node_manager()
    node_manager.ensure([REMOTE], ())
    assert set(node_manager.fleet.names()) == {"local", "gpu2"}
    assert [n.name for n in node_manager.fleet.nodes()] == ["local"]
    first = node_manager.fleet.executor_of(REMOTE.name)
    node_manager.ensure([REMOTE], ())
    assert node_manager.fleet.executor_of(REMOTE.name) is first
    node_manager.ensure([], ())
    assert node_manager.fleet.names() == ["local"]


@pytest.mark.parametrize("busy", [True, False])
def test_another_executor_than_last_time(world: World, busy: bool) -> None:
    """What still runs in the old way ends in peace."""
    node_manager = world.node_manager("docker")
    [event] = node_manager.ensure([node("local")], {LOCAL} if busy else ())
    if busy:
        assert isinstance(event, ev.DrainAsked)
        assert set(node_manager.fleet.names()) == {"local", "local-docker"}
    else:
        assert isinstance(event, ev.RemoveNodeAsked)
        assert (event.force, node_manager.fleet.names()) == (False, ["local-docker"])


def test_an_own_engine_that_does_not_work_is_told_at_the_first_start_alone(world: World) -> None:
    with pytest.raises(SchedulearnError, match="--executor both does not work: there is no socket"):
        world.node_manager("both").check_local(())
    world.node_manager("both").check_local({LOCAL_DOCKER})  # it may come back
    world.node_manager("process").check_local(())


def test_a_request_is_answered_with_what_was_found(world: World, tmp_path: Path) -> None:
    node_manager = world.node_manager(image="python")
    address = f"unix://{tmp_path}/none.sock"
    data = {"request": "r1", "name": "gpu2", "address": address, "image": "", "labels": [["room", "b12"]]}
    node_manager.examine(Request(1, "node_add", None, data, "ann", 0.0))
    [event] = wait_until(lambda: world.posted)
    assert (event.name, event.node, event.by, event.request) == ("gpu2", None, "ann", "r1")
    [(field, words)] = event.problems
    assert field == "address"
    assert "there is no socket" in words
    assert any("node local is the same machine" in note for note in event.notes)
