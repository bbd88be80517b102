"""A real web server of the test's own that takes notices."""

import base64
import hashlib
import hmac
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.waiting import wait_until


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    def signed_with(self, secret: str) -> bool:
        """Checked as the standard says, without our own code."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        text = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + self.raw
        right = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
        return hmac.compare_digest(self.headers["webhook-signature"], f"v1,{right}")


class Receiver:
    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.got: list[Received] = []
        self.answers: list[int] = []  # of the next requests; 200 when they are used up
        self.hold = threading.Event()  # answers wait until it is set
        self.hold.set()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        if tls:
            self.url = f"https://localhost:{self.server.server_port}"
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
            self.server.handle_error = lambda *_: None  # type: ignore[method-assign] # who does not trust us goes away

    def wait_for(self, count: int) -> list[Received]:
        wait_until(lambda: len(self.got) >= count, 60, f"{count} notices")
        return self.got


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.got.append(Received(self.path, headers, raw))
            receiver.hold.wait(60)
            status = receiver.answers.pop(0) if receiver.answers else 200
            try:
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", f"{receiver.url}/elsewhere")
                self.end_headers()
            except OSError:
                pass  # the sender was killed

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@contextmanager
def receiver(tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    made = Receiver(tls)
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.hold.set()
        made.server.shutdown()
        made.server.server_close()
        thread.join()
