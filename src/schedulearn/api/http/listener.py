"""Taking connections in: our own loop around accept(), and uvicorn's protocols with bounds on what they wait for."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.auto import AutoWebSocketsProtocol

from schedulearn.api.http.connections import Connection, Connections
from schedulearn.api.http.ending import told_to_end
from schedulearn.asgi import TRUST

_BACKLOG = 2048
_PIECE = 8192  # bytes of a head that are looked at together
_UNREAD = 1 << 16  # bytes of what is not looked at
_GOODBYE = 5.0  # seconds for the end of a TLS connection
_PAUSE = 0.1  # seconds before the next try when the system has no more descriptors
_NO_TLS = b'{"title": "No TLS", "status": 503, "detail": "this port speaks TLS: its address begins with https://"}'
# 503, so that clients and jobs keep what they have to say: they may find their way later.
_PLAIN = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\ncontent-length: %d\r\n"
    b"connection: close\r\n\r\n%b" % (len(_NO_TLS), _NO_TLS)
)
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
log = logging.getLogger(__name__)


class Listener:
    """Accepts connections as long as it is open. To uvicorn it is one of its servers."""

    def __init__(
        self,
        listening: socket.socket,
        connections: Connections,
        protocol: Callable[[Connection], asyncio.Protocol],
        tls: ssl.SSLContext | None,
    ) -> None:
        self._listening, self._connections = listening, connections
        self._protocol, self._tls = protocol, tls
        self._beginning: set[asyncio.Task[None]] = set()
        listening.setblocking(False)
        listening.listen(_BACKLOG)
        self._loop = asyncio.get_running_loop()
        self._accepting = self._loop.create_task(self._accept())

    def close(self) -> None:
        for task in (self._accepting, *self._beginning):
            task.cancel()

    async def wait_closed(self) -> None:
        with suppress(asyncio.CancelledError):
            await self._accepting

    async def _accept(self) -> None:
        while True:
            try:
                sock, address = await self._loop.sock_accept(self._listening)
            except OSError as problem:  # it was gone before we looked, or there are no descriptors left
                log.warning("a connection could not be accepted: %s", problem)
                await asyncio.sleep(_PAUSE)
                continue
            connection = self._connections.admit(str(address[0]), self._loop.time())
            if connection is None:
                sock.close()
                continue
            beginning = self._loop.create_task(self._begin(sock, connection))
            connection.drop = partial(_cancel, beginning)
            self._beginning.add(beginning)
            beginning.add_done_callback(partial(self._begun, sock, connection))

    async def _begin(self, sock: socket.socket, connection: Connection) -> None:
        """From now on the protocol has it. With TLS that takes until both have agreed on a key."""
        more: dict[str, Any] = {}
        if self._tls:
            more = {"ssl_handshake_timeout": self._connections.limits.header, "ssl_shutdown_timeout": _GOODBYE}
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else each answer takes 40 ms longer
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._tls and _is_plain(await self._first_byte(sock)):
            await self._send_away(sock)
        made = self._protocol(connection)
        await self._loop.connect_accepted_socket(lambda: made, sock, ssl=self._tls, **more)

    async def _first_byte(self, sock: socket.socket) -> bytes:
        """It stays to be read. A client that keeps us waiting for it goes as all do that send no head."""
        there = asyncio.Event()
        self._loop.add_reader(sock, there.set)
        try:
            await there.wait()
        finally:
            self._loop.remove_reader(sock)
        return sock.recv(1, socket.MSG_PEEK)

    async def _send_away(self, sock: socket.socket) -> None:
        """Say that TLS is spoken here. To close before all is read could take the answer from them."""
        async with asyncio.timeout(_GOODBYE):
            await self._loop.sock_sendall(sock, _PLAIN)
            sock.shutdown(socket.SHUT_WR)
            while await self._loop.sock_recv(sock, _UNREAD):
                pass
        raise ConnectionAbortedError("it speaks no TLS")

    def _begun(self, sock: socket.socket, connection: Connection, task: asyncio.Task[None]) -> None:
        self._beginning.discard(task)
        problem = None if task.cancelled() else task.exception()
        if task.cancelled() or problem:  # no TLS, no patience, or no more room for it, perhaps before it began
            self._connections.forget(connection)
            sock.close()
        if problem and not isinstance(problem, OSError):
            log.error("a connection could not begin", exc_info=problem)


def _is_plain(first: bytes) -> bool:
    """Whether it begins as a request does, and not as TLS."""
    return first.isalpha()


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


class Http(HttpToolsProtocol):
    """A connection that speaks HTTP. Its head is counted, and what it does is told."""

    def __init__(self, connections: Connections, connection: Connection, **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self._all, self._own = connections, connection
        self.app = _trusting(self.app, lambda: connections.trust(connection))
        self.ws_protocol_class = self._socket  # type: ignore[assignment]
        self._head: int | None = 0  # bytes of a head that is not complete; None: there is none
        self._upgraded = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._own.drop = transport.abort
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.forget(self._own)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        while data and not self._upgraded and not self.transport.is_closing():
            # A head is looked at piece by piece, so that it cannot be much larger than allowed.
            was_head = self._head is not None  # else it is of a body, and a head may begin behind that
            size = _PIECE if was_head else len(data)
            piece, data = data[:size], data[size:]
            super().data_received(piece)
            if was_head and self._head is not None:
                self._head += len(piece)
                if self._head > self._all.limits.header_bytes and not self.transport.is_closing():
                    self.transport.write(_TOO_LARGE)
                    self.transport.close()
        if self.transport.is_closing():
            self._note_goodbye()

    def on_message_begin(self) -> None:
        self._head = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head = None
        self._all.began(self._own)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._head = 0  # whatever comes now is a head
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._all.ended(self._own, self.loop.time())
        super().on_response_complete()
        if self.transport.is_closing():
            self._note_goodbye()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._note_goodbye()

    def handle_websocket_upgrade(self) -> None:
        self._upgraded = True
        super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        self._own.stuck = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._own.stuck = None
        super().resume_writing()

    def _note_goodbye(self) -> None:
        """What was written before the end is still sent, if it is ever taken."""
        if self._own.stuck is None:
            self._own.stuck = self.loop.time()

    def _socket(self, **uvicorns: Any) -> asyncio.Protocol:
        assert AutoWebSocketsProtocol is not None, "websockets is one of our dependencies"
        made = AutoWebSocketsProtocol(**uvicorns)
        return _watched(made, self._all, self._own, self.loop)


def _watched(
    made: Any, connections: Connections, connection: Connection, loop: asyncio.AbstractEventLoop
) -> asyncio.Protocol:
    """A socket's protocol that tells what becomes of its connection. Which class it is depends on what is installed."""
    lost, pause, resume = made.connection_lost, made.pause_writing, made.resume_writing

    def connection_lost(problem: Exception | None) -> None:
        connections.forget(connection)
        lost(problem)

    def pause_writing() -> None:
        connection.stuck = loop.time()
        pause()

    def resume_writing() -> None:
        connection.stuck = None
        resume()

    made.connection_lost, made.pause_writing, made.resume_writing = connection_lost, pause_writing, resume_writing
    made.app = _trusting(made.app, lambda: connections.trust(connection))
    protocol: asyncio.Protocol = made
    return protocol


def _trusting(app: ASGIApp, trust: Callable[[], None]) -> ASGIApp:
    async def trusting(scope: Scope, receive: Receive, send: Send) -> None:
        scope[TRUST] = trust
        await app(scope, receive, send)

    return trusting


class Server(uvicorn.Server):
    """Uvicorn behind our own door.

    `on_exit` tells open streams to end as soon as a signal arrives, so that stopping does not wait for their readers.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        connections: Connections,
        on_exit: Callable[[], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(config)
        self.open_connections = connections
        self._on_exit, self._tls = on_exit, tls

    def handle_exit(self, sig: int, frame: object) -> None:
        self._on_exit()
        super().handle_exit(sig, frame)  # type: ignore[arg-type] # a frame, as signal handlers get it

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise SystemExit(3)

        def protocol(connection: Connection) -> asyncio.Protocol:
            state = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
            return Http(self.open_connections, connection, **state)

        doors = [Listener(sock, self.open_connections, protocol, self._tls) for sock in sockets or ()]
        self.servers = doors  # type: ignore[assignment] # it is only ever told to close them
        self.started = True
        self.should_exit |= told_to_end()

    async def on_tick(self, counter: int) -> bool:
        if counter % 5 == 0:  # every half second
            self.open_connections.sweep(asyncio.get_running_loop().time())
        return await super().on_tick(counter)
