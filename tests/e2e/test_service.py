"""Starting and stopping: one process or two, in the background, and every reason not to start."""

import os
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schedulearn.client import Client
from support.jobs import ended, in_state, spec, submit, until
from support.service import PATIENCE, Service, kill_jobs, run_cli
from support.waiting import wait_until


def up(data: Path, *more: str) -> Any:
    """`up` that should end at once."""
    return run_cli("up", "--data", str(data), "--port", "0", *more)


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A data folder; whatever runs on it at the end is stopped."""
    folder = tmp_path / "data"
    yield folder
    run_cli("down", "--data", str(folder))
    kill_jobs(folder)


# --- one or two processes


def test_two_processes_work_together_and_each_role_is_played_once(data: Path, tmp_path: Path) -> None:
    api, scheduler = Service(data, "--only", "api"), Service(data, "--only", "scheduler")
    with api, scheduler, api.client() as client:
        wait_until(lambda: client.health()["scheduler"] == "running", PATIENCE)
        assert ended(client, submit(client, spec("true")))["state"] == "succeeded"
        for only, called, holder in (("api", "API", api), ("scheduler", "scheduler", scheduler)):
            refused = up(data, "--only", only)
            assert refused.returncode != 0
            assert f"another process (pid {holder.pid}) already runs the {called} on" in refused.stderr
            assert "Traceback" not in refused.stderr
        gate = tmp_path / "gate"
        running = submit(client, spec(until(gate)))
        in_state(client, running, "running")
        scheduler.kill()
        assert client.health()["scheduler"] == "absent", "at once: its socket tells"
        waiting = submit(client, spec("true"))
        assert client.job(waiting)["state"] == "queued", "the API goes on without a scheduler"
        scheduler.start()
        assert ended(client, waiting)["state"] == "succeeded"
        api.kill()
        gate.touch()
        api.start()
        assert ended(client, running)["state"] == "succeeded"


def test_a_whole_second_service_is_refused(client: Client, service: Service) -> None:
    refused = up(service.data)
    assert refused.returncode != 0
    assert f"pid {service.pid}" in refused.stderr
    assert "schedulearn down" in refused.stderr
    assert client.health()["status"] == "ok"


def test_in_the_background_and_back(data: Path) -> None:
    began = run_cli("up", "--data", str(data), "--port", "0", "--detach")
    assert began.returncode == 0
    assert "token: sl_" in began.stdout
    env = {"SCHEDULEARN_DATA": str(data)}
    assert run_cli("run", "--no-workdir", "--", "echo", "hello", env=env).stdout.startswith("hello")
    again = run_cli("up", "--data", str(data), "--port", "0", "--detach")
    assert again.returncode != 0
    assert "already runs" in again.stderr
    down = run_cli("down", "--data", str(data))
    assert down.returncode == 0
    assert "have stopped" in down.stdout
    assert run_cli("ls", env=env).returncode == 4
    assert "No service runs" in run_cli("down", "--data", str(data)).stdout


# --- reasons not to start


def test_a_port_that_is_taken(data: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        refused = run_cli("up", "--data", str(data), "--port", str(port))
    assert refused.returncode != 0
    assert f"port {port} is taken" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.fixture
def used(service: Service, client: Client, data: Path) -> Path:
    """A data folder with a past, that no service runs on."""
    ended(client, submit(client, spec("true")))
    file = data.with_name("used.tar.gz")
    assert run_cli("backup", str(file), "--data", str(service.data)).returncode == 0
    assert run_cli("restore", str(file), "--data", str(data)).returncode == 0
    return data


def refuses(data: Path, *words: str) -> None:
    """It does not start, says so in these words, and changes nothing."""
    before = content(data)
    refused = up(data)
    assert refused.returncode != 0
    assert all(word in refused.stderr for word in words), refused.stderr
    assert "Traceback" not in refused.stderr
    assert content(data) == before


def content(data: Path) -> dict[str, bytes]:
    passing = {"api.lock", "scheduler.lock"}
    return {p.name: p.read_bytes() for p in data.iterdir() if p.is_file() and p.name not in passing}


def test_a_database_that_is_none(used: Path) -> None:
    (used / "schedulearn.db").write_bytes(b"this is no database, whatever its name says" * 100)
    refuses(used, "damaged", "schedulearn.db", "backup")


def test_a_database_that_is_damaged(used: Path) -> None:
    with open(used / "schedulearn.db", "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(size // 2)
        file.write(os.urandom(size // 4))
    refuses(used, "damaged", "schedulearn.db")


def test_a_database_of_a_newer_version(used: Path) -> None:
    connection = sqlite3.connect(used / "schedulearn.db")
    connection.execute("UPDATE schema_version SET version = 9999")
    connection.commit()
    connection.close()
    refuses(used, "newer version", "9999")


def test_a_data_folder_that_may_not_be_written(data: Path, tmp_path: Path) -> None:
    nobody = shutil.which("setpriv")
    if os.geteuid() == 0 and not nobody:
        pytest.skip("root may write everywhere, and there is no setpriv to become somebody else")
    data.mkdir(mode=0o755)
    data.chmod(0o555)
    words = [*(["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else [])]
    refused = unprivileged(words, data)
    assert refused.returncode != 0
    assert "Permission denied" in refused.stderr
    assert str(data) in refused.stderr
    assert "Traceback" not in refused.stderr


def unprivileged(prefix: list[str], data: Path) -> Any:
    from support.service import command_line, environment

    for folder in list(data.parents)[:3]:
        folder.chmod(folder.stat().st_mode | 0o055)  # pytest's own folders are private
    words = [*prefix, *command_line("up", "--data", str(data), "--port", "0")]
    return subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=PATIENCE)


# --- backup and restore


def test_a_backup_of_a_running_service_comes_to_life_elsewhere(
    client: Client, service: Service, data: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    done = submit(client, spec("echo result > out.txt", name="done"))
    ended(client, done)
    running = submit(client, spec(until(gate), name="running"))
    in_state(client, running, "running")
    file = tmp_path / "backup.tar.gz"
    saved = run_cli("backup", str(file), "--data", str(service.data))
    assert saved.returncode == 0
    assert f"schedulearn restore {file}" in saved.stdout
    refused = run_cli("restore", str(file), "--data", str(service.data))
    assert refused.returncode != 0
    assert f"pid {service.pid}" in refused.stderr
    assert run_cli("restore", str(file), "--data", str(data)).returncode == 0
    with Service(data) as twin, twin.client(service.token) as copy:
        assert copy.pull(done, "out.txt", tmp_path / "pulled")[0].read_text() == "result\n"
        wait_until(lambda: copy.job(running)["attempt"] == 2, PATIENCE, "its process is not here: it starts again")
        in_state(copy, running, "running")
        assert client.job(running)["attempt"] == 1
        assert client.job(running)["state"] == "running", "the original noticed nothing"
        gate.touch()
        assert ended(copy, running)["state"] == "succeeded"
    assert ended(client, running)["state"] == "succeeded"


def test_a_file_that_is_no_backup(tmp_path: Path) -> None:
    (tmp_path / "no.tar.gz").write_bytes(b"no")
    refused = run_cli("restore", str(tmp_path / "no.tar.gz"), "--data", str(tmp_path / "new"))
    assert refused.returncode != 0
    assert "cannot be read as a backup" in refused.stderr
    assert not (tmp_path / "new").exists()
