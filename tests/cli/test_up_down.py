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
from schedulearn.service.common.config import Options


@pytest.fixture
def served(monkeypatch):
    """What `serve` was given, without serving."""
    import schedulearn.api.server as server

    given = []
    monkeypatch.setattr(server, "serve", lambda options, announce, page: given.append(options))
    before = signal.getsignal(signal.SIGTERM)
    yield given
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def handed_on(cli, monkeypatch):
    """The command line that a detached start gives to its child, for this one."""
    import schedulearn.cli.common.detach as detach

    given = []
    monkeypatch.setattr(detach, "start_detached", lambda data, words, only: given.append(words) or 0)

    def start(*args):
        assert cli("up", "--detach", *args).code == 0
        return given.pop()

    return start


def test_options_reach_the_service(cli, served, handed_on, tmp_path):
    args = ["--host", "127.0.0.2", "--port", "0", "--only", "api", "--keep-days", "2", "--keep-size", "1GB"]
    args += ["--data", tmp_path, "--database", "postgresql+psycopg://x", "--log-level", "debug"]
    assert cli("up", *args).code == 0
    expected = Options(
        tmp_path,
        frozenset({"api"}),
        host="127.0.0.2",
        port=0,
        database="postgresql+psycopg://x",
        keep_seconds=172800.0,
        keep_bytes=10**9,
        log_level="debug",
    )
    assert served == [expected]
    assert cli("up", *handed_on(*args)).code == 0  # what a detached start hands on means the same
    assert served == [expected, expected]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "2001:db8::1"])
@pytest.mark.parametrize("only", [[], ["--only", "api"], ["--only", "dashboard", "--url", "http://lab:7311"]])
def test_other_machines_are_let_in_with_tls_or_if_it_is_insisted_on(cli, served, handed_on, tmp_path, host, only):
    refused = cli("up", "--data", tmp_path, "--host", host, *only)
    assert (refused.code, served) == (2, [])
    for way in ("--tls", "--tls-cert", "--insecure", "127.0.0.1"):
        assert way in refused.err
    if "dashboard" not in only:
        for more in (["--tls"], ["--insecure"], ["--tls-cert", "c.pem", "--tls-key", "k.pem"]):
            args = ["--data", tmp_path, "--host", host, *only, *more]
            assert cli("up", *args).code == 0
            options = served.pop()
            assert cli("up", *handed_on(*args)).code == 0
            assert served.pop() == options


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_this_machine_needs_no_tls_nor_does_a_scheduler_alone(cli, served, tmp_path, host):
    assert cli("up", "--data", tmp_path, "--host", host).code == 0
    assert cli("up", "--data", tmp_path, "--host", "0.0.0.0", "--only", "scheduler").code == 0
    assert len(served) == 2


def test_how_jobs_are_run_reaches_the_service_too(cli, served, handed_on, tmp_path):
    args = ["--executor", "both", "--image", "python:3.12", "--shared-checkpoints", "/srv/checkpoints"]
    args += ["--allow-mounts", "/data", "--allow-mounts", "/scratch:rw", "--lost-after", "90s"]
    args += ["--networks", "10.9.0.0/16", "--no-host-network", "--setup-time", "2h"]
    args += ["--url", "http://lab:7311/", "--no-page", "--uids", "200000-299999", "--root-jobs"]
    assert cli("up", "--data", tmp_path, *args).code == 0
    [options] = served
    assert (options.executor, options.image, options.lost_after) == ("both", "python:3.12", 90.0)
    assert options.shared_checkpoints == Path("/srv/checkpoints")
    assert options.allow_mounts == ("/data", "/scratch:rw")
    assert (options.networks, options.host_network, options.setup_time) == ("10.9.0.0/16", False, 7200.0)
    assert options.url == "http://lab:7311"
    assert not options.page
    assert (options.uids, options.root_jobs) == ((200_000, 299_999), True)
    cli("up", *handed_on("--data", tmp_path, *args))
    assert served == [options, options]


def test_what_one_user_may_have_reaches_the_service(cli, served, handed_on, tmp_path):
    args = ["--keep-audit", "2d", "--max-jobs-per-user", "7", "--max-snapshots-per-user", "5MB"]
    assert cli("up", "--data", tmp_path, *args, "--max-disk-per-user", "0", "--max-disk-per-job", "3GB").code == 0
    [options] = served
    assert (options.keep_audit, options.caps.jobs) == (172800.0, 7)
    assert (options.caps.snapshots, options.caps.disk, options.caps.job_disk) == (5 * 10**6, 0, 3 * 10**9)
    more = ["--max-disk-per-user", "0", "--max-disk-per-job", "3GB"]
    cli("up", *handed_on("--data", tmp_path, *args, *more))
    assert served == [options, options]
    wrong = cli("up", "--data", tmp_path, "--max-disk-per-user", "much")
    assert (wrong.code, "--max-disk-per-user" in wrong.err) == (2, True)


@pytest.mark.parametrize("text", ["5", "0-999", "999-2000", "2000-2000", "70000-4294967295", "a-b", "70000-", "-5-8"])
def test_no_range_of_uids(cli, served, text):
    refused = cli("up", f"--uids={text}")
    assert refused.code != 0
    assert "--uids" in refused.err
    assert served == []


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
     (["--allow-mounts", "/"], "--allow-mounts"),
     (["--allow-mounts", "/a:rw", "--allow-mounts", "/a/b"], "--allow-mounts"),
     (["--networks", "8.8.8.0/24"], "--networks"), (["--setup-time", "never"], "--setup-time"),
     (["--image", "../containers"], "--image"),
     (["--url", "lab:7311"], "--url"), (["--url", "http://lab:x"], "--url"), (["--url", "http://"], "--url"),
     (["--url", "https://lab#sha256=12"], "--url"), (["--url", f"http://lab#sha256={'1' * 64}"], "--url"),
     (["--tls-cert", "c.pem"], "--tls-key"), (["--tls-key", "k.pem"], "--tls-cert"),
     (["--tls", "--tls-cert", "c.pem", "--tls-key", "k.pem"], "--tls"), (["--host", "no.such.invalid"], "--host"),
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
    assert "Running jobs keep running" in result.out


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
