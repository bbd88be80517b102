"""What executors are told of an attempt: ports that do not collide, and which worker sees which devices."""

import socket
from typing import Any

import pytest

from schedulearn.core.domain.ids import AttemptId, DeviceId, JobId, NodeName, WorkerId
from schedulearn.core.domain.job import Attempt, Worker
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.spec import Launcher as Kind
from schedulearn.service.common.identity import Identities
from schedulearn.service.loop.launch import Launcher, Ports
from support.builders import job, node


class NoStore:
    """Knows two servers and nobody, and keeps nothing."""

    def __init__(self, url: str = "") -> None:
        self._url = url

    def list_nodes(self) -> list[Node]:
        return [
            node("here", address="unix:///run/docker.sock"),
            node("far", address="ssh://ann@gpu2:2222"),
            node("named", address="tcp://[fd00::2]:2376", labels=(("address", "10.0.0.7"),)),
            node("six", address="tcp://[fd00::2]:2376"),
        ]

    def add_token(self, *_: object) -> None: ...

    def user_of(self, _: JobId) -> None: ...

    def setting(self, _: str, default: object) -> object:
        return self._url or default


def launches(launcher: Kind, *nodes: str, url: str = "") -> list[Launch]:
    spec: Any = {"launcher": launcher, "workers": len(nodes), "gpus": 1}
    workers = [
        Worker(WorkerId(JobId(1), 1, rank), NodeName(node), (DeviceId(f"gpu{rank}"),))
        for rank, node in enumerate(nodes)
    ]
    store: Any = NoStore(url)
    folder: Any = None
    return Launcher(store, folder, Identities()).launches(
        job(1, **spec), Attempt(AttemptId(JobId(1), 1), 0.0, workers), 0.0
    )


def test_ports_are_free_and_do_not_come_again_soon() -> None:
    ports = Ports()
    given = [ports.next() for _ in range(200)]
    assert len(set(given)) == 200
    assert all(Ports.FIRST <= port <= Ports.LAST for port in given)


def test_a_port_that_somebody_uses_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(Ports, "FIRST", port)
        monkeypatch.setattr(Ports, "LAST", port + 3)
        ports = Ports()
        assert port not in {ports.next() for _ in range(8)}


def test_every_attempt_has_a_port_that_its_workers_share() -> None:
    first, second = launches(Kind.COMMAND, "a"), launches(Kind.TORCHRUN, "a", "b")
    assert len({launch.master_port for launch in second}) == 1
    assert 0 not in (first[0].master_port, second[0].master_port)


@pytest.mark.parametrize(
    ("nodes", "url", "expected"),
    [
        (("far", "far"), "", "127.0.0.1"),
        (("far", "here"), "", "gpu2"),
        (("named", "far"), "", "10.0.0.7"),
        (("six", "far"), "", "fd00::2"),
        (("here", "far"), "http://head.lab:7311", "head.lab"),
        (("here", "gone"), "", "127.0.0.1"),
    ],
)
def test_workers_on_several_nodes_find_the_first_one(nodes: tuple[str, ...], url: str, expected: str) -> None:
    assert {launch.master_addr for launch in launches(Kind.TORCHRUN, *nodes, url=url)} == {expected}


def test_horovods_processes_see_all_devices_in_worker_0() -> None:
    assert [launch.devices for launch in launches(Kind.HOROVOD, "a", "a")] == [("gpu0", "gpu1"), ()]
    assert [launch.devices for launch in launches(Kind.TORCHRUN, "a", "a")] == [("gpu0",), ("gpu1",)]


def test_workers_know_whether_they_are_together() -> None:
    assert [launch.together for launch in launches(Kind.HOROVOD, "a", "a")] == [True, True]
    assert [launch.together for launch in launches(Kind.HOROVOD, "a", "b")] == [False, False]


@pytest.mark.parametrize(
    ("launcher", "nodes", "elsewhere"),
    [
        (Kind.ELASTIC, ("here",), True),  # others could join on the other servers
        (Kind.ELASTIC, ("here", "far"), True),
        (Kind.HOROVOD, ("here",), False),  # never on several
        (Kind.TORCHRUN, ("here",), False),  # resized by stop and start
    ],
)
def test_workers_know_whether_others_may_join_elsewhere(
    launcher: Kind, nodes: tuple[str, ...], elsewhere: bool
) -> None:
    assert {launch.elsewhere for launch in launches(launcher, *nodes)} == {elsewhere}


def test_nobody_joins_elsewhere_where_there_is_one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NoStore, "list_nodes", lambda _: [node("here")])
    assert [launch.elsewhere for launch in launches(Kind.ELASTIC, "here", "here")] == [False, False]
