"""A small real service that takes reports the way the true one does, and programs that run as if in a job."""

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import schedulearn
from support.elastic import Starter
from support.waiting import wait_until

SOURCE = Path(schedulearn.__file__).parent.parent
TOKEN = "sl_of-this-attempt"
# A test is not about the speed of the service beside it, unless it says so.
_LASTS = "from schedulearn.job import reporter, sender; reporter._AT_EXIT = sender._TIMEOUT = %r"


class Service:
    """Counts a point only if its number is above all that it has, as the store does."""

    def __init__(self) -> None:
        self.port = 0
        self.points: list[dict[str, Any]] = []
        self.posts = 0
        self.answering = threading.Event()  # clear: it accepts connections and never answers
        self.answering.set()
        self.fail_after_taking = 0  # so many times it takes the points, and breaks off before it says so
        self.refuse_with: int | None = None
        self.connections: list[socket.socket] = []
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def steps(self) -> list[int]:
        return [point["step"] for point in self.points]

    def start(self) -> None:
        handler = type("Bound", (_Handler,), {"service": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Stop listening, and break off the connections that are open, as a killed service does."""
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.connections.clear()

    def take(self, body: dict[str, Any]) -> int:
        assert body["worker"] == "17.2.0"
        with self._lock:
            self.posts += 1
            highest = self.points[-1]["seq"] if self.points else 0
            new = [point for point in body["points"] if point["seq"] > highest]
            assert [p["seq"] for p in new] == sorted({p["seq"] for p in new}), "numbers do not grow"
            self.points += new
            return len(new)


class _Handler(BaseHTTPRequestHandler):
    service: Service
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.service.connections.append(self.connection)

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (ConnectionError, ValueError):  # the program went away
            self.close_connection = True

    def do_POST(self) -> None:
        service = self.service
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not service.answering.is_set():
            service.answering.wait(60)
            self.close_connection = True
            return
        if service.refuse_with:
            self._answer(service.refuse_with, {})
            return
        assert self.path == "/api/v1/attempts/17.2/reports"
        assert self.headers["Authorization"] == f"Bearer {TOKEN}"
        accepted = service.take(body)
        if service.fail_after_taking:
            service.fail_after_taking -= 1
            self.close_connection = True
            return
        self._answer(200, {"accepted": accepted})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    service.start()
    yield service
    service.answering.set()
    service.stop()


class Program:
    """A Python program that runs as a worker. It prints a line when it wants the test to know something."""

    def __init__(self, code: str, env: dict[str, str], patience: float) -> None:
        # Later versions of Python warn of any fork beside a thread; here it is meant.
        warnings = ["-W", "error", "-W", "ignore:This process:DeprecationWarning"]
        self.process = subprocess.Popen(
            [sys.executable, *warnings, "-c", f"{_LASTS % patience}\n{textwrap.dedent(code)}"],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def go_on(self) -> None:
        """Give it the line that it waits for with `input()`."""
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def end(self) -> None:
        assert self.process.wait(60) == 0

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream
            with suppress(BrokenPipeError):
                stream.close()


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool.jsonl"


@pytest.fixture
def worker_env(tmp_path: Path, service: Service, spool: Path) -> dict[str, str]:
    (tmp_path / "token").write_text(TOKEN + "\n")
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(SOURCE),
        "PYTHONUNBUFFERED": "1",
        "SCHEDULEARN_JOB_ID": "17",
        "SCHEDULEARN_ATTEMPT": "17.2",
        "SCHEDULEARN_WORKER": "17.2.0",
        "SCHEDULEARN_URL": service.url,
        "SCHEDULEARN_TOKEN_FILE": str(tmp_path / "token"),
        "SCHEDULEARN_SPOOL": str(spool),
        "SCHEDULEARN_CHECKPOINT_DIR": str(tmp_path / "checkpoint"),
    }


@pytest.fixture
def run(worker_env: dict[str, str]) -> Iterator[Callable[..., Program]]:
    """Start a program as a worker; `extra` is added to its environment. At its end it has `patience` to report."""
    started: list[Program] = []

    def start(code: str, patience: float = 60.0, **extra: str) -> Program:
        started.append(Program(code, worker_env | extra, patience))
        return started[-1]

    yield start
    for program in started:
        program.close()


def spooled(path: Path) -> list[dict[str, Any]]:
    """What a reader finds in the spool."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [found for line in lines if "seq" in (found := json.loads(line))]


@pytest.fixture
def read_spool() -> Callable[[Path], list[dict[str, Any]]]:
    return spooled


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    return wait_until


@pytest.fixture(scope="session")
def starter() -> Iterator[Starter]:
    """One for all programs that use torch."""
    starter = Starter()
    yield starter
    starter.close()
