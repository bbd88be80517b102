"""The server's side of the command line: options, starting in the background, stopping."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from schedulearn.cli.common.data import data_folder, is_service
from schedulearn.cli.common.errors import Failure
from schedulearn.cli.up import arguments, parse_size, parse_time
from schedulearn.service.config import Options


@pytest.mark.parametrize(("text", "size"), [("50GB", 50 * 10**9), ("1.5 kB", 1500), ("2GiB", 2 * 1024**3), ("7", 7)])
def test_sizes(text, size):
    assert parse_size(text) == size


def test_a_size_that_is_none():
    with pytest.raises(Failure) as caught:
        parse_size("much")
    assert caught.value.field == "--keep-size"


@pytest.fixture
def served(monkeypatch):
    """What `serve` was given, without serving."""
    import schedulearn.api.server as server

    given = []
    monkeypatch.setattr(server, "serve", lambda options, announce, page: given.append(options))
    before = signal.getsignal(signal.SIGTERM)
    yield given
    signal.signal(signal.SIGTERM, before)


def test_options_reach_the_service(cli, served, tmp_path):
    args = ["--host", "0.0.0.0", "--port", "0", "--only", "api", "--keep-days", "2", "--keep-size", "1GB"]
    assert (
        cli("up", "--data", tmp_path, *args, "--database", "postgresql+psycopg://x", "--log-level", "debug").code == 0
    )
    expected = Options(tmp_path, "0.0.0.0", 0, frozenset({"api"}), "postgresql+psycopg://x", 172800.0, 10**9, "debug")
    assert served == [expected]
    assert cli("up", *arguments(expected)).code == 0  # what a detached start hands on means the same
    assert served == [expected, expected]


def test_how_jobs_are_run_reaches_the_service_too(cli, served, tmp_path):
    args = ["--executor", "both", "--image", "python:3.12", "--shared-checkpoints", "/srv/checkpoints"]
    args += ["--allow-mounts", "/data", "--allow-mounts", "/scratch:rw", "--lost-after", "90s"]
    args += ["--url", "http://lab:7311/", "--no-page"]
    assert cli("up", "--data", tmp_path, *args).code == 0
    [options] = served
    assert (options.executor, options.image, options.lost_after) == ("both", "python:3.12", 90.0)
    assert options.shared_checkpoints == Path("/srv/checkpoints")
    assert options.allow_mounts == ("/data", "/scratch:rw")
    assert options.url == "http://lab:7311"
    assert not options.page
    cli("up", *arguments(options))
    assert served == [options, options]


@pytest.mark.parametrize(("text", "seconds"), [("90", 90.0), ("5m", 300.0), ("1.5h", 5400.0), ("10 s", 10.0)])
def test_times(text, seconds):
    assert parse_time(text, "--lost-after") == seconds


def test_defaults(cli, served, tmp_path, monkeypatch):
    monkeypatch.setenv("SCHEDULEARN_DATA", str(tmp_path))
    cli("up")
    assert served == [Options(tmp_path)]


@pytest.mark.parametrize(
    ("args", "field"),
    [(["--only", "web"], "--only"), (["--port", "70000"], "--port"), (["--keep-size", "x"], "--keep-size"),
     (["--log-level", "loud"], "--log-level"), (["--executor", "podman"], "--executor"),
     (["--lost-after", "soon"], "--lost-after"), (["--shared-checkpoints", "here"], "--shared-checkpoints"),
     (["--allow-mounts", "data"], "--allow-mounts"), (["--allow-mounts", "/a/../b"], "--allow-mounts"),
     (["--url", "lab:7311"], "--url"), (["--url", "http://lab:x"], "--url"), (["--url", "http://"], "--url"),
     (["--only", "dashboard"], "--url"), (["--only", "dashboard", "--detach"], "--url")],
)  # fmt: skip
def test_wrong_options_are_named(cli, served, args, field):
    result = cli("up", *args)
    assert (result.code, served) == (2, [])
    assert field in result.err


def test_a_detached_start_that_fails_says_why(cli, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = cli("up", "--detach", "--data", tmp_path, "--port", taken.getsockname()[1])
    assert (result.code, result.out) == (2, "")
    assert "is taken" in result.err
    assert str(tmp_path / "service.log") in result.err


@pytest.fixture
def pretender(tmp_path):
    """A process that looks like `schedulearn up` and ends on SIGTERM."""
    script = tmp_path / "schedulearn"
    script.write_text("import signal, sys\nprint('ready', flush=True)\nsignal.pause()\n")
    process = subprocess.Popen([sys.executable, str(script), "up"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_down_stops_the_service_and_says_that_jobs_go_on(cli, pretender, tmp_path):
    service = {"pid": pretender.pid, "url": "http://127.0.0.1:1", "roles": ["api", "scheduler"]}
    (tmp_path / "service.json").write_text(json.dumps(service))
    result = cli("down", "--data", tmp_path)
    assert result.code == 0
    assert pretender.wait() == -signal.SIGTERM
    assert f"The api and scheduler (pid {pretender.pid}) have stopped." in result.out
    assert "Running jobs go on" in result.out


def test_down_finds_a_scheduler_of_its_own_by_its_lock(cli, pretender, tmp_path):
    (tmp_path / "scheduler.lock").write_text(json.dumps({"pid": pretender.pid}))
    assert cli("down", "--data", tmp_path, "--json").json["stopped"] == [pretender.pid]
    assert pretender.wait() == -signal.SIGTERM


def test_down_leaves_a_stranger_alone(cli, tmp_path):
    """The pid in the file has gone to another process since."""
    with subprocess.Popen(["sleep", "60"]) as stranger:
        (tmp_path / "service.json").write_text(json.dumps({"pid": stranger.pid, "url": "x", "roles": []}))
        result = cli("down", "--data", tmp_path)
        assert stranger.poll() is None
        stranger.kill()
    assert result.code == 0
    assert "No service runs" in result.out


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "x"}', '{"pid": -1}'])
def test_down_with_a_broken_file(cli, tmp_path, content):
    (tmp_path / "service.json").write_text(content)
    assert cli("down", "--data", tmp_path, "--json").json["stopped"] == []


def test_this_test_is_no_service():
    assert not is_service(os.getpid())


def test_the_data_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("SCHEDULEARN_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_folder(None) == tmp_path / ".schedulearn"
    assert data_folder(Path("~/x")) == tmp_path / "x"


def test_backup_of_nothing(cli, tmp_path):
    result = cli("backup", tmp_path / "b.tar.gz", "--data", tmp_path)
    assert result.code == 2
    assert str(tmp_path) in result.err


def test_backup_and_restore(cli, tmp_path):
    from schedulearn.store import open_store

    data, file = tmp_path / "data", tmp_path / "b.tar.gz"
    data.mkdir()
    open_store(data / "schedulearn.db").close()
    assert cli("backup", file, "--data", data).code == 0
    assert cli("restore", file, "--data", tmp_path / "new", "--json").json["data"] == str(tmp_path / "new")
    assert (tmp_path / "new" / "schedulearn.db").exists()
    again = cli("restore", file, "--data", tmp_path / "new")
    assert again.code == 2
    assert "not empty" in again.err
