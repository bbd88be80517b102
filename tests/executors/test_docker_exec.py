"""Commands beside a worker that is a container, and its files while it runs."""

import io
import os
import signal
import socket
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from schedulearn.core.domain.errors import Conflict, InvalidSpec, NotFound
from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.executors.common.exec import NotRunning
from schedulearn.executors.docker import exec as module
from schedulearn.executors.docker.containers import Containers
from schedulearn.executors.docker.rules import NONE_RUNNING
from support.bench import DEADLINE, until
from support.beside import outcome
from support.docker_bench import DockerBench

TREE = "sleep 1000 & (sleep 1000 & sleep 1000) & echo ready; wait"


@pytest.fixture
def sleeping(containers: DockerBench) -> Iterator[Any]:
    launch = containers.launch("mkdir out; echo x > out/model; echo ready; exec sleep 1000", env={"MARK": "here"})
    executor = containers.executor()
    executor.start(launch)
    containers.until(lambda: b"ready" in containers.output(launch))
    containers.until(lambda: "sleep 1000" in running(containers, launch), "the shell has made way")
    yield executor, launch
    executor.stop(launch.worker, launch.node, 0)
    containers.ended(launch)


def running(containers: DockerBench, launch: Any) -> list[str]:
    """The commands of the processes in the container."""
    with containers.daemon.client() as client:
        return [row[-1] for row in client.api.top(containers.name(launch), "-eo pid,args")["Processes"]]


def test_a_command(sleeping: Any) -> None:
    executor, launch = sleeping
    script = "id -u; pwd; echo $MARK; cat; echo bad >&2; exit 3"
    out, err, code = outcome(executor.exec.run(launch.worker, ["sh", "-c", script]))
    assert (out.split(), err, code) == ([b"%d" % NONE_RUNNING, b"/work", b"here"], b"bad\n", 3)


def test_its_words_are_taken_as_they_are(sleeping: Any) -> None:
    executor, launch = sleeping
    words = ["sh", "-c", 'printf "%s|" "$@"', "sh", "a b", "$MARK", "'", "", "-n"]
    assert outcome(executor.exec.run(launch.worker, words))[0] == b"a b|$MARK|'||-n|"


def test_all_that_it_writes_comes(sleeping: Any) -> None:
    executor, launch = sleeping
    out, _, code = outcome(executor.exec.run(launch.worker, ["head", "-c", "3000000", "/dev/zero"]))
    assert (len(out), code) == (3_000_000, 0)


def test_a_command_that_does_not_exist(sleeping: Any) -> None:
    executor, launch = sleeping
    out, err, code = outcome(executor.exec.run(launch.worker, ["no-such-thing"]))
    assert b"no-such-thing" in out + err
    assert code == 127


def test_a_signal_is_told_as_a_shell_does(sleeping: Any) -> None:
    executor, launch = sleeping
    assert outcome(executor.exec.run(launch.worker, ["sh", "-c", "kill -TERM $$"]))[2] == 128 + signal.SIGTERM


def test_ending_it_ends_all_that_it_started(sleeping: Any, containers: DockerBench) -> None:
    executor, launch = sleeping
    before = running(containers, launch)
    command = executor.exec.run(launch.worker, ["sh", "-c", TREE])
    output = iter(command)
    assert next(output)[1] == b"ready\n"
    assert len(running(containers, launch)) > len(before)
    threading.Timer(0.01, command.end).start()  # from another thread, while this one waits for output
    assert list(output) == []
    containers.until(lambda: running(containers, launch) == before)
    assert command.exit_code == 128 + signal.SIGKILL


def test_what_it_leaves_in_the_background_ends_with_it(
    sleeping: Any, containers: DockerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_EVERY", 0.2)
    executor, launch = sleeping
    before = running(containers, launch)
    out, _, code = outcome(executor.exec.run(launch.worker, ["sh", "-c", "sleep 1000 & echo done"]))
    assert (out, code) == (b"done\n", 0)
    containers.until(lambda: running(containers, launch) == before)


def test_it_ends_with_the_container(containers: DockerBench) -> None:
    launch = containers.launch("echo ready; exec sleep 1000")
    executor = containers.executor()
    executor.start(launch)
    containers.started(launch)
    command = executor.exec.run(launch.worker, ["sh", "-c", TREE])
    output = iter(command)
    next(output)
    executor.stop(launch.worker, launch.node, 0)
    assert list(output) == []
    assert command.exit_code != 0
    containers.ended(launch)


def test_a_service_that_is_killed_leaves_no_command(sleeping: Any, containers: DockerBench) -> None:
    _, launch = sleeping
    before = running(containers, launch)
    code = f"""
import os, signal
from pathlib import Path
from schedulearn.core.domain.ids import WorkerId
from schedulearn.executors.docker.exec import DockerExec
from schedulearn.executors.docker.calls import Calls
from schedulearn.executors.docker.connect import Engine
from schedulearn.executors.docker.containers import Containers
from schedulearn.executors.common.instance import instance_of
containers = Containers(Calls(Engine({containers.daemon.address!r})), instance_of(Path({str(containers.root)!r})))
command = DockerExec(containers).run(WorkerId.parse({str(launch.worker)!r}), ["sh", "-c", {TREE!r}])
next(iter(command))
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, env=os.environ)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    containers.until(lambda: running(containers, launch) == before)


def test_nothing_runs_beside_a_worker_that_stands_still_or_is_not_there(sleeping: Any, containers: DockerBench) -> None:
    executor, launch = sleeping
    executor.pause(launch.worker, launch.node)
    containers.until(lambda: containers.inspect(launch)["State"]["Paused"])
    with pytest.raises(Conflict, match="resume the job first"):
        executor.exec.run(launch.worker, ["true"])
    with pytest.raises(NotRunning):
        executor.exec.run(launch.worker._replace(job=JobId(9)), ["true"])


# --- files


def names(chunks: Any) -> dict[str, bytes]:
    found = {}
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isreg() else None
            found[member.name] = file.read() if file else b""
    return found


def test_files_of_a_running_worker(sleeping: Any) -> None:
    executor, launch = sleeping
    assert names(executor.exec.files(launch.worker, "")) == {".": b"", "out": b"", "out/model": b"x\n"}
    assert names(executor.exec.files(launch.worker, "out/model")) == {"out/model": b"x\n"}
    with pytest.raises(NotFound):
        executor.exec.files(launch.worker, "nothing")
    for path in ("/etc/passwd", "../etc/passwd", "out/../../etc"):
        with pytest.raises(InvalidSpec):
            executor.exec.files(launch.worker, path)
    assert executor.exec.files(launch.worker._replace(job=JobId(9)), "") is None, "they are on the service's side"


class _Engine:
    """Answers to what is asked of it one after the other, and writes down what that was."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_make = threading.Event()
        self.end = socket.socketpair()

    def exec_create(self, *_: Any, **__: Any) -> dict[str, str]:
        assert self.may_make.wait(DEADLINE)
        self.asked.append("create")
        return {"Id": "command"}

    def exec_start(self, *_: Any, **__: Any) -> socket.socket:
        self.asked.append("start")
        return self.end[0]

    def exec_inspect(self, _: str) -> dict[str, Any]:
        """It has a process when it is asked for the second time."""
        self.asked.append("inspect")
        return {"Running": True, "Pid": 17 if self.asked.count("inspect") > 1 else 0, "ExitCode": None}

    def inspect_container(self, _: str) -> dict[str, Any]:
        times = {"StartedAt": "2026-01-01T00:00:00Z", "FinishedAt": "0001-01-01T00:00:00Z"}
        state = {"Status": "running", "ExitCode": 0, "OOMKilled": False, "Error": "", **times}
        return {"Id": "container", "State": state, "Config": {"Labels": {}, "User": "1:1"}}

    def pause(self, _: str) -> None:
        self.asked.append("pause")


class _Calls:
    def __init__(self, engine: _Engine) -> None:
        self._engine = engine

    @contextmanager
    def api(self) -> Iterator[_Engine]:
        yield self._engine


def test_no_container_is_paused_while_a_command_begins_in_it() -> None:
    """An engine such as 20.10 would answer nothing about it any more."""
    engine = _Engine()
    containers = Containers(_Calls(engine), "test")  # type: ignore[arg-type]
    worker = WorkerId(JobId(1), 1, 0)
    beginning = threading.Thread(target=module.DockerExec(containers).run, args=(worker, ["true"]))
    pausing = threading.Thread(target=containers.pause, args=(containers.name(worker),))
    for number, thread in enumerate((beginning, pausing), 1):
        thread.start()
        until(lambda number=number: containers.waiting(containers.name(worker)) == number, "it wants the container")
    engine.may_make.set()
    for thread in (beginning, pausing):
        thread.join(DEADLINE)
    for one in engine.end:
        one.close()
    assert engine.asked == ["create", "start", "inspect", "inspect", "pause"]
    assert containers.waiting(containers.name(worker)) == 0
