"""Commands beside a worker that is a process."""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.events import WorkerPaused
from schedulearn.core.domain.ids import JobId
from schedulearn.executors.common.exec import NotRunning
from schedulearn.executors.process.claim import read_claim
from support.beside import TREE, outcome

SLEEP = "exec sleep 1000"


@pytest.fixture
def sleeping(bench: Any) -> Iterator[Any]:
    launch = bench.launch(SLEEP, env={"MARK": "here"})
    executor = bench.executor()
    executor.start(launch)
    bench.started(launch)
    yield executor, launch
    executor.stop(launch.worker, launch.node, 0)
    bench.ended(launch)


def test_it_has_the_folder_and_the_environment_of_the_job(sleeping: Any, bench: Any) -> None:
    executor, launch = sleeping
    script = "pwd; echo $MARK $SCHEDULEARN_WORKER; cat; echo bad >&2; exit 3"
    out, err, code = outcome(executor.exec.run(launch.worker, ["sh", "-c", script]))
    assert out.decode().split() == [str(bench.paths(launch).job.run), "here", str(launch.worker)]
    assert (err, code) == (b"bad\n", 3)


def test_a_command_that_does_not_exist(sleeping: Any) -> None:
    executor, launch = sleeping
    out, err, code = outcome(executor.exec.run(launch.worker, ["no-such-thing"]))
    assert (out, err, code) == (b"", b"schedulearn: command not found: no-such-thing\n", 127)
    assert outcome(executor.exec.run(launch.worker, ["/etc/passwd"]))[2] == 126


def test_a_signal_is_told_as_a_shell_does(sleeping: Any) -> None:
    executor, launch = sleeping
    assert outcome(executor.exec.run(launch.worker, ["sh", "-c", "kill -TERM $$"]))[2] == 128 + signal.SIGTERM


def test_all_that_it_writes_comes(sleeping: Any) -> None:
    executor, launch = sleeping
    out, _, code = outcome(executor.exec.run(launch.worker, ["head", "-c", "3000000", "/dev/zero"]))
    assert (len(out), code) == (3_000_000, 0)


def test_ending_it_ends_its_whole_tree(sleeping: Any, bench: Any) -> None:
    executor, launch = sleeping
    command = executor.exec.run(launch.worker, ["sh", "-c", TREE])
    output = iter(command)
    pids = [int(word) for word in next(output)[1].split()]
    threading.Timer(0.01, command.end).start()  # from another thread, while this one waits for output
    assert list(output) == []
    assert command.exit_code == 128 + signal.SIGKILL
    assert all(bench.dead(pid) for pid in pids)
    assert not bench.dead(read_claim(bench.paths(launch).claim).child_pid), "the job goes on"


def test_what_it_leaves_in_the_background_ends_with_it(sleeping: Any, bench: Any) -> None:
    executor, launch = sleeping
    out, _, code = outcome(executor.exec.run(launch.worker, ["sh", "-c", "setsid sleep 1000 & echo $!"]))
    assert code == 0
    assert bench.dead(int(out))


def test_it_ends_with_the_worker(bench: Any, real_cgroups: Any) -> None:
    """Also those of its control groups that both were in are gone then, which the bench looks at."""
    launch = bench.launch(SLEEP)
    executor = bench.executor(cgroups=real_cgroups)
    executor.start(launch)
    bench.started(launch)
    command = executor.exec.run(launch.worker, ["sh", "-c", TREE])
    output = iter(command)
    pids = [int(word) for word in next(output)[1].split()]
    executor.stop(launch.worker, launch.node, 0)
    assert list(output) == []
    assert all(bench.dead(pid) for pid in pids)
    bench.ended(launch)


def test_it_is_in_the_groups_of_the_worker(bench: Any, real_cgroups: Any) -> None:
    launch = bench.launch(SLEEP)
    executor = bench.executor(cgroups=real_cgroups)
    executor.start(launch)
    bench.started(launch)
    out, _, _ = outcome(executor.exec.run(launch.worker, ["cat", "/proc/self/cgroup"]))
    job = read_claim(bench.paths(launch).claim).child_pid
    assert out.decode() == Path(f"/proc/{job}/cgroup").read_text()
    executor.stop(launch.worker, launch.node, 0)
    bench.ended(launch)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_it_is_the_user_of_the_job(bench: Any) -> None:
    launch = bench.launch(SLEEP, uid=65534, gid=65534)
    executor = bench.executor()
    executor.start(launch)
    bench.started(launch)
    out, _, _ = outcome(executor.exec.run(launch.worker, ["sh", "-c", "id -u; id -g; id -G"]))
    assert set(out.split()) == {b"65534"}
    executor.stop(launch.worker, launch.node, 0)
    bench.ended(launch)


def test_it_runs_beside_a_worker_that_is_suspended(sleeping: Any, bench: Any) -> None:
    executor, launch = sleeping
    executor.pause(launch.worker, launch.node)
    bench.recorder.wait(WorkerPaused, launch.worker)
    assert outcome(executor.exec.run(launch.worker, ["echo", "still"]))[0] == b"still\n"


def test_nothing_runs_beside_a_worker_that_does_not_run(bench: Any) -> None:
    launch = bench.launch("true")
    executor = bench.executor()
    executor.start(launch)
    bench.ended(launch)
    for worker in (launch.worker, launch.worker._replace(job=JobId(9))):
        with pytest.raises(NotRunning):
            executor.exec.run(worker, ["true"])


def test_a_service_that_is_killed_leaves_no_command(sleeping: Any, bench: Any, tmp_path: Path) -> None:
    """The companion hears of it by the end of its standard input."""
    _, launch = sleeping
    code = f"""
import os, signal
from pathlib import Path
from schedulearn.core.domain.ids import WorkerId
from schedulearn.executors.process.exec import ProcessExec
command = ProcessExec(Path({str(bench.root)!r})).run(WorkerId.parse({str(launch.worker)!r}), ["sh", "-c", {TREE!r}])
print(next(iter(command))[1].decode(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([bench.python_program, "-c", code], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    for pid in map(int, killed.stdout.split()):
        bench.until(lambda pid=pid: bench.dead(pid))
