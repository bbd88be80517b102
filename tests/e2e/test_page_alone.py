"""`up --only dashboard --detach`: a real page in a process of its own, for a service that comes and goes."""

import json
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.service import PATIENCE, Service, run_cli
from support.waiting import wait_until


@pytest.fixture
def port() -> int:
    """One that is free now: the service takes it later."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "page"
    run_cli("down", "--data", str(tmp_path / "page"))


def look(url: str, path: str) -> tuple[int, str]:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def start(folder: Path, port: int, *more: str) -> "tuple[int, str, str]":
    words = ("--only", "dashboard", "--url", f"http://127.0.0.1:{port}", "--port", "0", "--data", str(folder))
    done = run_cli("up", *words, *more)
    return done.returncode, done.stdout, done.stderr


def test_it_waits_for_its_service_and_down_stops_it(folder: Path, port: int, tmp_path: Path) -> None:
    code, out, err = start(folder, port, "--detach")
    assert code == 0, err
    left = json.loads((folder / "dashboard.json").read_text())
    assert f"The page runs at {left['url']} (pid {left['pid']})." in out
    for path in ("/login", "/login?once=a-code"):
        status, shown = look(left["url"], path)
        assert (status, "The service does not answer" in shown, 'http-equiv="refresh"' in shown) == (503, True, True)
    with Service(tmp_path / "data", "--port", str(port)):
        wait_until(lambda: look(left["url"], "/login")[0] == 200, PATIENCE, "the service is there")
        assert "Token" in look(left["url"], "/login")[1]
    for how in (("--detach",), ()):
        again = start(folder, port, *how)
        assert again[0] == 2
        assert f"already running on {folder} (pid {left['pid']})" in again[2]
    stopped = run_cli("down", "--data", str(folder))
    assert f"The dashboard (pid {left['pid']}) has stopped." in stopped.stdout
    with pytest.raises(ConnectionRefusedError):
        look(left["url"], "/login")
    assert not (folder / "dashboard.json").exists()
