"""What is done beside jobs, between the API's process and the scheduler's: over a real socket."""

import asyncio
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.errors import Conflict, InvalidSpec, NotFound, SchedulearnError
from schedulearn.core.domain.ids import NodeName, WorkerId
from schedulearn.executors.common.exec import STDOUT, Exec, NotRunning
from schedulearn.service.exec import server
from schedulearn.service.exec.client import Session
from schedulearn.service.exec.protocol import ALIVE, EXIT, HEADER, PROBLEM, frame, of_error, short_path, to_error
from schedulearn.service.exec.server import ExecServer
from support.waiting import wait_until

PATIENCE = 30.0  # only matters when something is broken
ASKED = {"worker": "1.1.0", "node": "here", "command": ["wait"], "by": "ann"}


class Waiting:
    """Says one thing, then nothing until it is ended."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        yield STDOUT, b"begun"
        assert self.ended.wait(PATIENCE)

    @property
    def exit_code(self) -> int:
        return 137

    def end(self) -> None:
        self.ended.set()


class Node:
    """Implements `Exec`."""

    def __init__(self) -> None:
        self.commands: list[Waiting] = []
        self.error: SchedulearnError | None = None

    def run(self, worker: WorkerId, command: list[str]) -> Waiting:
        if self.error:
            raise self.error
        self.commands.append(Waiting())
        return self.commands[-1]

    def files(self, worker: WorkerId, path: str) -> Iterator[bytes] | None:
        if path == "gone":
            return None
        return iter([b"a", b"b"]) if path == "whole" else broken()


def broken() -> Iterator[bytes]:
    yield b"a"
    raise NotFound("the engine hung up")


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    monkeypatch.setattr(server, "BEAT", 0.05)
    node = Node()

    def find(name: NodeName) -> Exec | None:
        return node if name == "here" else None

    part = ExecServer(tmp_path / "beside.sock", find)
    part.start()
    yield node
    part.close()
    assert all(command.ended.is_set() for command in node.commands), "a service that stops leaves no command"
    assert not (tmp_path / "beside.sock").exists()


def kinds(data: list[bytes]) -> list[int]:
    return [HEADER.unpack(piece[: HEADER.size])[0] for piece in data]


def test_only_our_own_user_may_ask(tmp_path: Path, node: Node) -> None:
    assert stat.S_IMODE((tmp_path / "beside.sock").stat().st_mode) == 0o600


def test_a_silent_command_gives_signs_of_life_until_nobody_listens(tmp_path: Path, node: Node) -> None:
    async def session() -> list[bytes]:
        stream = (await Session.begin(tmp_path / "beside.sock", ASKED)).frames()
        got = [await anext(stream) for _ in range(3)]
        await stream.aclose()  # type: ignore[attr-defined] # as the server does when its client has gone
        return got

    assert kinds(asyncio.run(session())) == [STDOUT, ALIVE, ALIVE]
    wait_until(node.commands[0].ended.is_set, PATIENCE, "the command is ended")


def test_the_last_word_is_the_exit_code(tmp_path: Path, node: Node) -> None:
    async def session() -> list[bytes]:
        stream = (await Session.begin(tmp_path / "beside.sock", ASKED)).frames()
        got = [await anext(stream)]
        node.commands[0].end()
        return got + [piece async for piece in stream]

    pieces = [piece for piece in asyncio.run(session()) if piece != frame(ALIVE)]
    assert pieces == [frame(STDOUT, b"begun"), frame(EXIT, b"137")]


@pytest.mark.parametrize(
    "error", [Conflict("paused"), NotFound("no file"), NotRunning("over"), InvalidSpec("path", "bad", "good")]
)
def test_errors_arrive_as_what_they_are(tmp_path: Path, node: Node, error: SchedulearnError) -> None:
    node.error = error
    with pytest.raises(type(error)) as raised:
        asyncio.run(Session.begin(tmp_path / "beside.sock", ASKED))
    assert (type(raised.value), str(raised.value)) == (type(error), str(error))


def test_any_other_error_of_a_node_is_a_conflict() -> None:
    sent = of_error(SchedulearnError("the engine does not answer"))
    assert HEADER.unpack(sent[: HEADER.size])[0] == PROBLEM
    got = to_error(sent[HEADER.size :])
    assert (type(got), str(got)) == (Conflict, "the engine does not answer")


def test_a_node_that_is_gone(tmp_path: Path, node: Node) -> None:
    with pytest.raises(NotRunning, match="no node there"):
        asyncio.run(Session.begin(tmp_path / "beside.sock", {**ASKED, "node": "there"}))


def test_there_is_a_limit(tmp_path: Path, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST", 1)

    async def session() -> None:
        first = await Session.begin(tmp_path / "beside.sock", ASKED)
        with pytest.raises(Conflict, match="wait until one has ended"):
            await Session.begin(tmp_path / "beside.sock", ASKED)
        first.close()

    asyncio.run(session())


def files(tmp_path: Path, path: str) -> bytes:
    async def session() -> bytes:
        asked = {"worker": "1.1.0", "node": "here", "path": path}
        stream = (await Session.begin(tmp_path / "beside.sock", asked)).content()
        return b"".join([chunk async for chunk in stream])

    return asyncio.run(session())


def test_files_are_whole_or_an_error(tmp_path: Path, node: Node) -> None:
    assert files(tmp_path, "whole") == b"ab"
    with pytest.raises(NotFound, match="hung up"):
        files(tmp_path, "broken")
    with pytest.raises(NotRunning):
        files(tmp_path, "gone")


@pytest.mark.parametrize("said", [b"", b"\0\xff\xff\xff\xff", frame(0, b"no JSON"), frame(0, b"{}")])
def test_nonsense_harms_nobody(tmp_path: Path, node: Node, said: bytes, caplog: Any) -> None:
    with socket.socket(socket.AF_UNIX) as connection, short_path(tmp_path / "beside.sock") as name:
        connection.connect(name)
        connection.sendall(said)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b""
    assert files(tmp_path, "whole") == b"ab"
    caplog.clear()
