"""The real service, as a process of its own with a data folder of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schedulearn.client import Client

SOURCE = Path(__file__).parent.parent / "src"
_PATIENCE = 60.0  # seconds for it to come up


def environment(data: Path) -> dict[str, str]:
    """As a user's shell would have it: compiled modules are kept, and no other service is meant."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SCHEDULEARN_", "PYTHONDONTWRITE"))}
    return {**kept, "PYTHONPATH": str(SOURCE), "SCHEDULEARN_DATA": str(data)}


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "schedulearn.cli", *words]


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="schedulearn-bench-", ignore_cleanup_errors=True) as name:
        yield Path(name)


class Service:
    """A running `schedulearn up`. `seconds` is how long it took to answer as healthy, with its scheduler."""

    def __init__(self, data: Path) -> None:
        self.data = data
        start = time.perf_counter()
        self._said = open(data.with_suffix(".out"), "w+")  # noqa: SIM115 # open as long as the process
        self.process = subprocess.Popen(
            command("up", "--data", str(data), "--port", "0", *(["--root-jobs"] if os.geteuid() == 0 else [])),
            env=environment(data), stdout=self._said, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.url = self._wait_for_address(start)
        self._wait_until_healthy(start)
        self.seconds = time.perf_counter() - start

    @property
    def pid(self) -> int:
        return self.process.pid

    def client(self) -> Client:
        told = json.loads((self.data / "client.json").read_text())
        return Client(self.url, told["token"])

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        self._said.close()

    def _wait_for_address(self, start: float) -> str:
        while time.perf_counter() - start < _PATIENCE and self.process.poll() is None:
            if found := re.search(r"address: (\S+)", self._said_so_far()):
                return found[1]
            time.sleep(0.005)
        raise RuntimeError(f"the service did not start:\n{self._said_so_far()}")

    def _wait_until_healthy(self, start: float) -> None:
        while time.perf_counter() - start < _PATIENCE:
            try:
                with urllib.request.urlopen(f"{self.url}/api/v1/health", timeout=5) as answer:
                    if json.load(answer)["scheduler"] == "running":
                        return
            except OSError:
                pass  # it does not listen yet
            time.sleep(0.005)
        raise RuntimeError("the service did not become healthy")

    def _said_so_far(self) -> str:
        return Path(self._said.name).read_text()


@contextmanager
def running() -> Iterator[Service]:
    """A service on a fresh data folder."""
    with folder() as root:
        service = Service(root / "data")
        try:
            yield service
        finally:
            service.stop()
