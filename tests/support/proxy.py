"""A proxy before the service that loses answers: what was asked is done, and the caller does not learn it."""

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

_OWN = {"connection", "transfer-encoding", "content-length", "host"}  # headers of one connection


class LossyProxy:
    """Loses the answers to the first few submissions; `on_loss` is called while the caller still waits."""

    def __init__(self, url: str, losses: int, on_loss: Callable[[], None] = lambda: None) -> None:
        parts = urlsplit(url)
        self.target = (parts.hostname or "", parts.port or 0)
        self.losses, self.on_loss = losses, on_loss
        self.lost: list[int] = []  # the statuses of the answers that were lost
        self._lock = threading.Lock()

    def loses(self, status: int) -> bool:
        with self._lock:
            if len(self.lost) >= self.losses:
                return False
            self.lost.append(status)
            return True


@contextmanager
def lossy_proxy(url: str, losses: int, on_loss: Callable[[], None] = lambda: None) -> Iterator[tuple[LossyProxy, str]]:
    """The proxy, and its address."""
    proxy = LossyProxy(url, losses, on_loss)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"proxy": proxy}))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield proxy, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    proxy: LossyProxy
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None: ...

    def _forward(self) -> None:
        self.close_connection = True
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        connection = http.client.HTTPConnection(*self.proxy.target, timeout=60)
        try:
            given = {name: value for name, value in self.headers.items() if name.lower() not in _OWN}
            connection.request(self.command, self.path, body, given)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            return  # the service is away: the caller's connection breaks, too
        finally:
            connection.close()
        if self.command == "POST" and self.path == "/api/v1/jobs" and self.proxy.loses(answer.status):
            self.proxy.on_loss()
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in _OWN:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _forward  # noqa: N815 # names that http.server asks for
