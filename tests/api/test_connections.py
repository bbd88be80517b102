"""Clients that say nothing, next to nothing, too much, or take nothing: over real sockets."""

import asyncio
import json
import logging
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from websockets.sync.client import connect as connect_socket

from schedulearn.api.app import create_app
from schedulearn.api.http import limits, listener
from schedulearn.api.http.concurrency import SLOT, ConcurrencyLimits, TooMany
from schedulearn.api.http.connections import Connection, Connections, Limits
from schedulearn.api.http.limits import LogLimit
from schedulearn.api.http.listener import Server
from schedulearn.api.server import make_server
from schedulearn.asgi import TRUST
from schedulearn.core.domain.ids import AttemptId, JobId
from schedulearn.core.domain.job import HistoryEvent
from schedulearn.service.common.auth import Caller
from schedulearn.service.common.config import Options
from schedulearn.service.upkeep.certificate import certificate_for

LONG = 3600.0  # seconds: never, as far as a test is concerned
PATIENT = Limits(total=64, header=LONG, stall=LONG)
HEALTH = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
EVENTS = b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sl_ann\r\n\r\n"


class Running:
    def __init__(self, server: Server, port: int) -> None:
        self.server, self.port = server, port
        self._opened = ExitStack()

    def connect(self, sent: bytes = b"") -> socket.socket:
        made = self._opened.enter_context(socket.create_connection(("127.0.0.1", self.port), timeout=60))
        made.sendall(sent)
        return made

    def close(self) -> None:
        self._opened.close()

    @property
    def open(self) -> int:
        return len(self.server.open_connections)


@contextmanager
def running(app: Any, limits: Limits, tls: ssl.SSLContext | None = None) -> Iterator[Running]:
    listening = socket.create_server(("127.0.0.1", 0))
    server = make_server(app, limits, tls=tls, log_level="error")
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    one = Running(server, listening.getsockname()[1])
    try:
        yield one
    finally:
        one.close()
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


@pytest.fixture
def run(world: Any) -> Iterator[Callable[..., Running]]:
    """The real API behind the real server, with limits of the test's own."""
    with ExitStack() as stack:
        stack.callback(world.gateway.close)

        def start(limits: Limits = PATIENT, app: Any = None, tls: ssl.SSLContext | None = None) -> Running:
            return stack.enter_context(running(app or create_app(world.gateway, limits.total), limits, tls))

        yield start


def until_closed(connection: socket.socket) -> bytes:
    """All that comes until the other side has closed it."""
    content = b""
    try:
        while data := connection.recv(65536):
            content += data
    except ConnectionResetError:
        pass
    return content


def answers(one: Running) -> bool:
    return one.connect(HEALTH).recv(65536).startswith(b"HTTP/1.1 200")


def test_requests_that_are_none_do_not_fill_the_log(run: Any) -> None:
    written: list[str] = []
    now = 0.0
    log = logging.getLogger("uvicorn.error")
    handler = logging.Handler()
    handler.emit = lambda record: written.append(record.getMessage())  # type: ignore[method-assign]
    spares = LogLimit(most=3, window=60.0, now=lambda: now)
    with patch.object(log, "filters", []), patch.object(limits, "_log_limit", spares):
        one = run()
        log.setLevel(logging.WARNING)
        log.addHandler(handler)
        try:
            for _ in range(10):
                assert b" 400 " in until_closed(one.connect(b"\x16\x03\x01 hello\r\n\r\n"))
            now = 60.0
            assert b" 400 " in until_closed(one.connect(b"\x16\x03\x01 hello\r\n\r\n"))
        finally:
            log.removeHandler(handler)
    assert len(written) == 4
    assert written[-1].endswith("(and 7 lines that were left out)")


@pytest.mark.parametrize(
    "sent", [b"", b"G", HEALTH[:-2], HEALTH + b"GET /api/v1/health HTT"], ids=["nothing", "a byte", "half", "the next"]
)
def test_a_head_that_is_not_completed_ends_the_connection(run: Any, sent: bytes) -> None:
    one = run(Limits(total=64, header=0.2, stall=LONG))
    assert until_closed(one.connect(sent)).count(b"HTTP/1.1 200") == (sent.startswith(HEALTH))


def test_a_head_that_comes_bit_by_bit_gets_no_more_time(run: Any) -> None:
    one = run(Limits(total=64, header=0.5, stall=LONG))
    slow = one.connect(HEALTH[:-2])
    slow.settimeout(0.01)
    try:
        while True:
            with suppress(TimeoutError):
                assert slow.recv(100) == b""
                break  # closed
            slow.sendall(b"a: b\r\n")
    except ConnectionError:
        pass  # closed, while it was being told more


@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"], ids=["endless", "complete"])
@pytest.mark.parametrize(
    "sent",
    [b"GET /" + b"x" * 200_000, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 40_000, b"GET /?q=" + b"%20" * 90_000],
    ids=["path", "headers", "query"],
)
def test_a_head_that_is_too_large_is_refused(run: Any, sent: bytes, end: bytes) -> None:
    one = run()
    connection = one.connect()
    try:
        connection.sendall(sent + end)
        assert connection.recv(100).startswith(b"HTTP/1.1 431")
    except ConnectionError:  # it was not even read to its end
        pass
    assert answers(one)


def test_a_large_body_is_no_head(run: Any) -> None:
    """However much of it comes at once, its end included."""
    one = run(replace(PATIENT, header_bytes=9_000))
    body = json.dumps({"command": "true", "env": {"A": "x" * 90_000}}).encode()
    head = b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sl_ann\r\n"
    connection = one.connect(head + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert read_until(connection, b'"grace"').startswith(b"HTTP/1.1 201")
    connection.sendall(HEALTH)
    read_until(connection, b"HTTP/1.1 200")


def test_strangers_make_room_for_each_other(run: Any, eventually: Any) -> None:
    one = run(Limits(total=8, header=LONG, stall=LONG))
    silent = [one.connect(HEALTH[:10]) for _ in range(50)]
    for connection in silent[:42]:
        assert until_closed(connection) == b""
    assert one.open == 8
    assert all(answers(one) for _ in range(10))
    assert one.open <= 8


def test_who_showed_a_token_stays_whatever_strangers_do(run: Any, world: Any) -> None:
    one = run(Limits(total=8, header=LONG, stall=LONG))
    stream = one.connect(EVENTS)
    assert b": connected" in read_until(stream, b": connected")
    silent = [
        one.connect(b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n") for _ in range(30)
    ]
    assert until_closed(silent[0]) == b""
    world.save(events=[event("still there")])
    assert b"still there" in read_until(stream, b"still there")


def test_one_user_cannot_have_it_all(run: Any, problem: Any, eventually: Any) -> None:
    one = run()
    streams = [one.connect(EVENTS) for _ in range(4)]
    for stream in streams:
        read_until(stream, b": connected")
    refused = read_until(one.connect(EVENTS), b"}")
    assert refused.startswith(b"HTTP/1.1 429")
    assert json.loads(refused.partition(b"\r\n\r\n")[2])["detail"] == "ann follows 4 streams already: end one of them"
    other = one.connect(EVENTS.replace(b"sl_ann", b"sl_bob"))
    read_until(other, b": connected")
    streams[0].close()
    eventually(lambda: b"200 OK" in one.connect(EVENTS).recv(65536))


def test_requests_at_once_are_counted_until_their_end() -> None:
    async def inner(scope: Any, receive: Any, send: Any) -> None:
        scope[SLOT].take(scope["caller"])
        scope[SLOT].take(scope["caller"])  # once for each request, however often it is asked who it is
        await scope["wait"]()

    async def check() -> None:
        counted, done = ConcurrencyLimits(inner, 2, 1), asyncio.Event()

        async def ask(caller: Caller) -> None:
            nothing: Any = None
            await counted({"type": "http", "caller": caller, "wait": done.wait}, nothing, nothing)

        ann, job = Caller("ann", "user"), Caller("ann", "job", attempt=AttemptId(JobId(1), 1))
        under_way = [asyncio.ensure_future(ask(who)) for who in (ann, ann, job, Caller("bob", "user"))]
        await asyncio.sleep(0)
        with pytest.raises(TooMany, match="ann has 2 requests under way"):
            await ask(ann)
        done.set()
        await asyncio.gather(*under_way)
        await ask(ann)
        assert not counted.requests

    asyncio.run(check())


def test_who_does_not_take_its_answer_is_let_go(run: Any, eventually: Any) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            scope[TRUST]()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(1000):
                await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})

    one = run(Limits(total=64, header=LONG, stall=0.3), app)
    lazy = one.connect()
    lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    lazy.sendall(HEALTH)
    lazy.recv(1)
    eventually(lambda: one.open == 0)


def test_who_was_told_goodbye_and_does_not_listen_is_let_go(run: Any, eventually: Any) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = [(b"connection", b"close"), (b"content-length", b"20000000")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"x" * 20_000_000})

    one = run(Limits(total=64, header=LONG, stall=0.3), app)
    one.connect(HEALTH).recv(1)
    eventually(lambda: one.open == 0)


def test_requests_that_are_sent_ahead_are_all_answered(run: Any) -> None:
    one = run()
    content = b""
    connection = one.connect(HEALTH * 5)
    while content.count(b'"status"') < 5:
        data = connection.recv(65536)
        assert data
        content += data
    assert content.count(b"HTTP/1.1 200") == 5


def test_a_socket_of_the_page_is_counted_until_its_end(run: Any, eventually: Any) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            scope[TRUST]()
            await receive()
            await send({"type": "websocket.accept"})
            while (message := await receive())["type"] == "websocket.receive":
                await send({"type": "websocket.send", "text": message["text"]})

    one = run(Limits(total=8, header=0.3, stall=LONG), app)
    with connect_socket(f"ws://127.0.0.1:{one.port}/") as page:
        silent = [one.connect() for _ in range(20)]
        assert until_closed(silent[0]) == b""
        assert until_closed(silent[-1]) == b""  # as long as a head may take
        page.send("still there")
        assert page.recv(timeout=60) == "still there"
        assert one.open == 1
    eventually(lambda: one.open == 0)


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    made = certificate_for(Options(tmp_path / "data", tls=True))
    assert made
    return made.context()


def test_who_never_begins_with_tls_is_let_go(run: Any, tls: ssl.SSLContext) -> None:
    one = run(Limits(total=8, header=0.3, stall=LONG), tls=tls)
    assert until_closed(one.connect()) == b""
    assert b"HTTP" not in until_closed(one.connect(b"\0" + HEALTH))
    hello = bytes([22, 3, 1]) + struct.pack(">H", 500) + b"x" * 20  # a beginning of a beginning
    assert until_closed(one.connect(hello)) == b""


def test_who_speaks_no_tls_is_told(
    run: Any, tls: ssl.SSLContext, eventually: Any, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much they say at once; and nothing of it is done."""
    monkeypatch.setattr(listener, "_GOODBYE", LONG)
    one = run(Limits(total=8, header=LONG, stall=LONG), tls=tls)
    for sent in (HEALTH, b"POST /api/v1/jobs HTTP/1.1\r\nContent-Length: 20000000\r\n\r\n" + b"x" * 20_000_000):
        plain = one.connect(sent)
        plain.shutdown(socket.SHUT_WR)
        head, _, body = until_closed(plain).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert json.loads(body)["detail"] == "this port speaks TLS: its address begins with https://"
    eventually(lambda: one.open == 0)
    assert caplog.records == []


def test_with_tls_strangers_make_room_too(run: Any, tls: ssl.SSLContext) -> None:
    one = run(Limits(total=8, header=LONG, stall=LONG), tls=tls)
    silent = [one.connect() for _ in range(30)]
    assert until_closed(silent[0]) == b""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(one.connect()) as connection:
        connection.sendall(HEALTH)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


# --- who has to go


def admitted(connections: Connections, address: str = "10.0.0.1", count: int = 1) -> list[Any]:
    made = [connections.admit(address, 0.0) for _ in range(count)]
    for number, one in enumerate(made):
        if one:
            one.drop = lambda gone=dropped, number=(address, number): gone.append(number)
    return made


dropped: list[Any] = []


@pytest.fixture(autouse=True)
def nobody_was_dropped() -> None:
    dropped.clear()


def test_one_address_has_only_a_part_of_the_places_for_strangers() -> None:
    connections = Connections(Limits(total=100, per_address=3))
    admitted(connections, "10.0.0.2")
    admitted(connections, "10.0.0.1", 5)
    assert dropped == []  # what they were to do was said only afterwards
    first = admitted(connections, "10.0.0.9", 3)
    connections.trust(first[0])
    admitted(connections, "10.0.0.9", 2)
    assert dropped == [("10.0.0.9", 1)], "who is known does not count"
    assert len(connections) == 1 + 3 + 4


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "127.3.3.3"])
def test_this_machine_may_have_all_of_them(address: str) -> None:
    connections = Connections(Limits(total=100, per_address=3))
    admitted(connections, address, 50)
    assert len(connections) == 50


def test_first_go_strangers_then_who_does_nothing_and_nobody_else() -> None:
    connections = Connections(Limits(total=3))
    busy, idle, stranger = admitted(connections, count=3)
    for one in (busy, idle):
        connections.began(one)
        connections.trust(one)
    connections.began(stranger)
    connections.ended(idle, 1.0)
    admitted(connections, "10.0.0.2")
    assert dropped == [("10.0.0.1", 2)]
    [other] = list(connections._strangers)
    connections.began(other)
    connections.trust(other)
    assert admitted(connections, "10.0.0.3") != [None]
    assert dropped[1:] == [("10.0.0.1", 1)]
    [third] = list(connections._strangers)
    connections.trust(third)
    assert admitted(connections) == [None]
    assert len(dropped) == 2


def test_time_counts_from_the_end_of_the_last_request() -> None:
    connections = Connections(Limits(header=10.0, stall=20.0))
    [one] = admitted(connections)
    connections.sweep(9.0)
    connections.began(one)
    connections.began(one)  # sent ahead
    connections.sweep(1000.0)
    connections.ended(one, 1000.0)
    connections.sweep(2000.0)
    connections.ended(one, 2000.0)
    connections.sweep(2009.0)
    assert dropped == []
    connections.sweep(2011.0)
    assert len(dropped) == 1
    assert len(connections) == 0
    connections.forget(one)  # as its protocol says a little later
    assert len(connections) == 0


def test_a_connection_that_is_gone_is_not_trusted_any_more() -> None:
    connections = Connections(Limits())
    [one] = admitted(connections)
    connections.forget(one)
    connections.trust(one)
    connections.began(one)
    connections.ended(one, 1.0)
    assert len(connections) == 0
    assert isinstance(one, Connection)


def read_until(connection: socket.socket, word: bytes) -> bytes:
    content = b""
    while word not in content:
        data = connection.recv(65536)
        assert data, content
        content += data
    return content


def event(cause: str) -> Any:
    return HistoryEvent(1.5, "state", cause)
