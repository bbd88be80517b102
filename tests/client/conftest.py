"""A small real HTTP service that a test scripts."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes
    connection: int  # which connection it came over, counted from 1

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Service:
    """Answers by a function of the test's; remembers what was asked."""

    answer: Callable[["Handler", Request], None]
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    server: ThreadingHTTPServer | None = None
    port: int = 0
    open: list[socket.socket] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen; after a stop again at the same port."""
        handler = type("Bound", (Handler,), {"service": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Stop listening, and break off the connections that are open, as a killed service does."""
        server, self.server = self.server, None  # first: the test and its end may both stop it, at the same time
        if server:
            server.shutdown()
            server.server_close()
        for connection in self.open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.open.clear()


class Handler(BaseHTTPRequestHandler):
    service: Service
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.service.connections += 1
        self.number = self.service.connections
        self.service.open.append(self.connection)

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (ConnectionError, ValueError):  # the client went away
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        request = Request(
            self.command,
            parts.path.removeprefix("/api/v1"),
            parse_qs(parts.query),
            dict(self.headers),
            self.rfile.read(length),
            self.number,
        )
        self.service.requests.append(request)
        self.service.answer(self, request)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _serve  # noqa: N815 # names that http.server asks for

    def reply(self, body: Any = None, status: int = 200, kind: str = "application/json", **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def start_chunks(self, kind: str = "text/plain") -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        """One piece of a stream; an empty one ends it."""
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def break_off(self) -> None:
        """End the connection in the middle, as a killed service does."""
        self.close_connection = True


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[Handler, Request], None]], Service]]:
    """Start a service that answers by the given function."""
    started: list[Service] = []

    def start(answer: Callable[[Handler, Request], None]) -> Service:
        service = Service(answer)
        service.start()
        started.append(service)
        return service

    yield start
    for service in started:
        service.stop()


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No service of the machine's own is ever talked to."""
    for name in ("SCHEDULEARN_URL", "SCHEDULEARN_TOKEN", "SCHEDULEARN_SNAPSHOT_LIMIT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SCHEDULEARN_DATA", str(tmp_path_factory.mktemp("data")))
