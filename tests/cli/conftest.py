"""The command line in this process or in a terminal, and the real application that it speaks to."""

import fcntl
import io
import json
import os
import pty
import struct
import sys
import termios
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from schedulearn.cli.main import main
from support.application import TOKENS, Api, Application, Snapshot, busy, peopled
from support.quick import QuickProcess
from support.scratch import tmp_path

__all__ = ["tmp_path"]


@pytest.fixture(scope="session")
def api() -> Iterator[Api]:
    started = Api()
    yield started
    started.close()


@pytest.fixture(scope="session")
def peopled_once(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return peopled(tmp_path_factory.mktemp("peopled"))


@pytest.fixture(scope="session")
def busy_once(api: Api, peopled_once: Snapshot, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return busy(api, tmp_path_factory.mktemp("busy"), peopled_once)


@pytest.fixture
def at_home(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment in which the command line finds the application, and an empty present folder."""
    monkeypatch.setenv("SCHEDULEARN_URL", api.url)
    monkeypatch.setenv("SCHEDULEARN_TOKEN", TOKENS["ann"])
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)


@pytest.fixture
def begin(api: Api, tmp_path: Path, at_home: None) -> Iterator[Callable[[Snapshot], Application]]:
    """Have an application begin with this."""
    begun: list[Application] = []

    def make(snapshot: Snapshot) -> Application:
        begun.append(Application(api, tmp_path / "data", snapshot))
        begun[-1].serve()
        return begun[-1]

    yield make
    for application in begun:
        application.close()


@pytest.fixture
def service(begin: Callable[[Snapshot], Application], peopled_once: Snapshot) -> Application:
    """Without any job."""
    return begin(peopled_once)


@pytest.fixture
def jobs(begin: Callable[[Snapshot], Application], busy_once: Snapshot) -> Application:
    """With jobs 17 (runs), 18 (waits for the GPU of 17), 19 (failed with exit code 7) and 20 (succeeded)."""
    return begin(busy_once)


@dataclass
class Result:
    code: int
    raw: bytes  # what went to stdout
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode("utf-8", "replace")

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Result]


@pytest.fixture
def cli(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run the command line in this process, as if its output went into a pipe."""

    def run(*args: str | int, stdin: str = "") -> Result:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        capsysbinary.readouterr()
        code = main([str(arg) for arg in args])
        out, err = capsysbinary.readouterr()
        return Result(int(code), out, err.decode())

    return run


@pytest.fixture
def terminal() -> Callable[..., tuple[int, str]]:
    """Run the command line in a terminal of a given width; returns the exit code and what it showed."""

    def run(columns: int, *args: str) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
        with open(theirs, "r+b", buffering=0) as screen:
            child = QuickProcess(args, {**env, "TERM": "xterm-256color"}, screen, screen, entry=screen)
        shown = b""
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            if not chunk:
                break
            shown += chunk
        os.close(ours)
        return child.wait(60), shown.decode()

    return run
