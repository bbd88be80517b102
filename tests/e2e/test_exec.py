"""Commands beside running jobs, and files of jobs that run: through the whole service, in one process or in two."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schedulearn.client import STDERR, STDOUT, ApiError, Client, NoSuchJob
from support.base_image import IMAGE
from support.service import Service, command_line, environment, job_processes
from support.waiting import wait_until

PATIENCE = 120.0  # only matters when something is broken
SLEEP = "echo x > out.txt; echo ready; exec sleep 1000"


def begin(client: Client, **more: Any) -> int:
    """A job that runs and has written its file."""
    job = client.submit({"command": SLEEP, "workdir": None, "resources": {"cpus": 0.5}, **more})["id"]
    wait_until(lambda: client.job(job)["state"] == "running", PATIENCE, "the job runs")
    wait_until(lambda: b"".join(client.logs(job)), PATIENCE, "it has written its file")
    return int(job)


@pytest.fixture(scope="module", params=["one process", "two"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("service") / ("deep" * 30) / "data"  # too long for a socket's path
    data.parent.mkdir(parents=True)
    api = Service(data, *(["--only", "api"] if request.param == "two" else [])).start()
    try:
        if request.param == "two":
            with Service(data, "--only", "scheduler"):
                yield api
        else:
            yield api
    finally:
        api.clean_up()


def test_output_and_exit_code(whole: Service) -> None:
    with whole.client() as client:
        job = begin(client, env={"MARK": "here"})
        ran = whole.cli("exec", str(job), "--", "sh", "-c", "pwd; echo $MARK; echo bad >&2; exit 7")
        assert (ran.returncode, ran.stderr) == (7, "bad\n")
        assert ran.stdout.split() == [str(whole.data / "jobs" / str(job) / "run"), "here"]
        ran = whole.cli("exec", str(job), "--json", "--", "echo", "-n", "x")
        assert '"stdout": "x"' in ran.stdout
        client.pause(job)
        wait_until(lambda: client.job(job)["state"] == "paused", PATIENCE)
        ran = whole.cli("exec", str(job), "--", "echo", "on")
        assert (ran.returncode, ran.stdout) == (0, "on\n")
        assert "its processes are stopped meanwhile" in ran.stderr
        client.delete(job)


def test_what_cannot_be(whole: Service) -> None:
    with whole.client() as client:
        job = begin(client)
        for command, worker, status, says in [([], 0, 422, "command"), (["true"], 5, 404, "has no worker 5")]:
            with pytest.raises(ApiError, match=says) as refused:
                client.exec(job, command, worker)
            assert refused.value.status == status
        with pytest.raises(NoSuchJob):
            client.exec(99999, ["true"])
        client.cancel(job)
        client.wait(job, PATIENCE)
        with pytest.raises(ApiError, match="is not running: it was cancelled"):
            client.exec(job, ["true"])
        assert whole.cli("exec", str(job)).returncode == 2


def test_whoever_hangs_up_ends_the_command(whole: Service) -> None:
    with whole.client() as client:
        job = begin(client)
        mine = len(job_processes(whole.data, f"{job}.1.0"))
        with client.exec(job, ["sh", "-c", "sleep 1000 & echo ready; wait"]) as running:
            assert next(iter(running)) == (STDOUT, b"ready\n")
            assert len(job_processes(whole.data, f"{job}.1.0")) > mine
        wait_until(lambda: len(job_processes(whole.data, f"{job}.1.0")) == mine, PATIENCE, "the command is gone")
        assert client.job(job)["state"] == "running"
        client.delete(job)


def test_ctrl_c_ends_the_command(whole: Service) -> None:
    with whole.client() as client:
        job = begin(client)
        mine = len(job_processes(whole.data, f"{job}.1.0"))
        words = command_line("exec", str(job), "--", "sh", "-c", "echo ready; exec sleep 1000")
        env = environment({"SCHEDULEARN_URL": whole.url, "SCHEDULEARN_TOKEN": whole.token})
        with subprocess.Popen(words, stdout=subprocess.PIPE, env=env) as verb:
            assert verb.stdout
            assert verb.stdout.readline() == b"ready\n"
            verb.send_signal(signal.SIGINT)
            assert verb.wait(PATIENCE) == 130
        wait_until(lambda: len(job_processes(whole.data, f"{job}.1.0")) == mine, PATIENCE, "the command is gone")
        client.delete(job)


def test_it_ends_with_the_job(whole: Service) -> None:
    with whole.client() as client:
        job = begin(client)
        with client.exec(job, ["sh", "-c", "echo ready; exec sleep 1000"]) as running:
            output = iter(running)
            next(output)
            client.cancel(job)
            assert list(output) == []
            assert running.exit_code == 128 + signal.SIGKILL


def test_without_a_scheduler_it_is_said(tmp_path: Path) -> None:
    data = tmp_path / "data"
    api = Service(data, "--only", "api").start()
    try:
        with api.client() as client:
            with Service(data, "--only", "scheduler") as scheduler:
                job = begin(client)
                scheduler.stop()
                with pytest.raises(ApiError, match="scheduler cannot be asked") as refused:
                    client.exec(job, ["true"])
            assert refused.value.status == 409
    finally:
        api.clean_up()


# --- in containers


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a Docker Engine")
def test_in_a_container(tmp_path: Path, daemons: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", daemons(1).address)
    data = tmp_path / "data"
    api = Service(data, "--only", "api").start()
    try:
        with Service(data, "--only", "scheduler", "--executor", "docker", "--image", IMAGE), api.client() as client:
            check_container(api, client, tmp_path)
    finally:
        api.clean_up()
        daemons.clean()


def check_container(api: Service, client: Client, folder: Path) -> None:
    wait_until(client.nodes, PATIENCE)
    job = begin(client)
    ran = api.cli("exec", str(job), "--", "sh", "-c", "pwd; echo new > live.txt; echo bad >&2; exit 7")
    assert (ran.returncode, ran.stdout, ran.stderr) == (7, "/work\n", "bad\n")
    written = client.pull(job, "live.txt", folder / "here")
    assert [path.read_text() for path in written] == ["new\n"], "it comes out of the container while that runs"
    assert {path.name for path in client.pull(job, to=folder / "all")} == {"live.txt", "out.txt"}
    with pytest.raises(ApiError, match="there is no 'nothing' among the files") as missing:
        client.pull(job, "nothing", folder / "none")
    assert missing.value.status == 404
    client.pause(job)
    wait_until(lambda: client.job(job)["state"] == "paused", PATIENCE)
    with pytest.raises(ApiError, match="resume the job first") as paused:
        client.exec(job, ["true"])
    assert paused.value.status == 409
    client.resume(job)
    client.cancel(job)
    client.wait(job, PATIENCE)
    [after] = client.pull(job, "live.txt", folder / "after")
    assert after.read_text() == "new\n", "it comes from the service's side once that has ended"


def test_streams_are_told_apart(whole: Service) -> None:
    with whole.client() as client:
        job = begin(client)
        with client.exec(job, ["sh", "-c", "echo out; echo err >&2"]) as running:
            assert sorted(running) == [(STDOUT, b"out\n"), (STDERR, b"err\n")]
        assert running.exit_code == 0
        client.delete(job)
