"""A service of its own for one run: it is started for it, and nothing of it is left afterwards."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from schedulearn.client import ApiError, Client, ClientError

_PATIENCE = 60.0  # seconds to come up, and to end
_LOOK = 0.05  # seconds


class LiveError(Exception):
    """A live run that cannot go on, in words."""


@dataclass(frozen=True, slots=True)
class Place:
    """How jobs are run on this machine."""

    executor: str = "process"  # or docker
    image: str = ""  # of containers: with Python and torch

    @property
    def python(self) -> str:
        return sys.executable if self.executor == "process" else "python3"

    @property
    def options(self) -> list[str]:
        """Of `up`. Containers reach it on Docker's bridge, an address of this machine that others do not have."""
        if self.executor == "process":  # all jobs are ours: they may be root if we are
            return ["--executor", "process", *(["--root-jobs"] if os.geteuid() == 0 else [])]
        return ["--executor", self.executor, "--image", self.image, "--host", _bridge()]


def _bridge() -> str:
    import docker  # takes a while, and few need it

    try:
        with closing(docker.from_env()) as engine:
            return str(engine.networks.get("bridge").attrs["IPAM"]["Config"][0]["Gateway"])
    except (docker.errors.DockerException, LookupError) as error:
        raise LiveError(f"there is no Docker Engine with a bridge here: {error}") from error


@contextmanager
def private_service(place: Place) -> Iterator[Client]:
    """Its client. When it ends, or with Ctrl-C, all its jobs are stopped, then the service, and its folder goes."""
    with tempfile.TemporaryDirectory(prefix="schedulearn-live-", ignore_cleanup_errors=True) as folder:
        data, log = Path(folder) / "data", Path(folder) / "log"
        process = _start(["--data", str(data), "--port", "0", *place.options], log)
        try:
            with _connect(process, data, log) as client:
                try:
                    yield client
                finally:
                    _end_jobs(client)
        finally:
            _end(process)


def _start(options: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """In a session of its own: Ctrl-C is for this process, which stops the jobs first."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SCHEDULEARN_")}
    with open(os.open(log, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "schedulearn.cli.main", "up", *options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=kept,
            start_new_session=True,
        )


def _connect(process: subprocess.Popen[bytes], data: Path, log: Path) -> Client:
    end = time.monotonic() + _PATIENCE
    while process.poll() is None and time.monotonic() < end:
        with suppress(OSError, ValueError, KeyError, ClientError):
            told = json.loads((data / "client.json").read_text("utf-8"))
            client = Client(told["url"], told["token"])
            if client.health()["scheduler"] == "running" and client.nodes():
                return client
            client.close()
        time.sleep(_LOOK)
    words = log.read_text("utf-8", "replace").strip().splitlines()[-15:]
    raise LiveError("\n".join(["the private service did not start:", *words]))


def _end_jobs(client: Client) -> None:
    """At once: what they would save is not needed."""
    with suppress(ClientError):
        for job in client.jobs(state=["active"], limit=1000)["jobs"]:
            with suppress(ApiError):
                client.delete(job["id"])
        wait_until(lambda: client.jobs(state=["active"], limit=1)["total"] == 0, _PATIENCE)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until(true: Callable[[], bool], seconds: float, look: float = _LOOK) -> bool:
    """Whether it has become so."""
    end = time.monotonic() + seconds
    while not (found := true()) and time.monotonic() < end:
        time.sleep(look)
    return found
