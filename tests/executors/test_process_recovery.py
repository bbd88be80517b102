"""The service dies at any point; its next life finds out what became of the workers."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.events import WorkerExited, WorkerStarted
from schedulearn.core.domain.outcome import Ending
from schedulearn.executors.common.folders import make_worker_folder
from schedulearn.executors.common.keys import worker_key
from schedulearn.executors.common.paths import write_file
from schedulearn.executors.common.signed import CLAIM, EXIT, signed
from schedulearn.executors.process.claim import read_claim, void
from schedulearn.executors.process.prepare import Limits, prepare
from schedulearn.executors.process.spawn import spawn

# A service of its own: starts one worker, says so, and waits to be killed.
SERVICE = """
import sys, time
from pathlib import Path
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.spec import JobSpec
from schedulearn.executors.process.executor import ProcessExecutor
from schedulearn.executors.kernel.groups import NO_CGROUPS

class Clock:
    def now(self):
        return time.time()

node = Node(NodeName("here"))
def tell(event):
    print(type(event).__name__, flush=True)

executor = ProcessExecutor(Path(sys.argv[1]), tell, Clock(), node, cgroups=NO_CGROUPS)
executor.start(Launch(WorkerId(JobId(1), 1, 0), node.name, JobSpec("test", sys.argv[2])))
time.sleep(1000)
"""
WAIT_FOR_GO = "echo ran >> ran; while [ ! -e go ]; do sleep 0.01; done; echo done; exit 6"


def start_and_kill_service(root: Path, command: str) -> None:
    with subprocess.Popen([sys.executable, "-c", SERVICE, str(root), command], stdout=subprocess.PIPE) as service:
        assert service.stdout is not None
        assert service.stdout.readline() == b"WorkerStarted\n"
        service.kill()


def shim_pid(bench: Any, launch: Any) -> int:
    claim = read_claim(bench.paths(launch).claim)
    assert claim is not None
    return claim.pid


def test_a_killed_service_leaves_the_worker_running(bench: Any) -> None:
    launch = bench.launch(WAIT_FOR_GO)
    start_and_kill_service(bench.root, WAIT_FOR_GO)
    bench.executor().adopt(launch.worker, launch.node)
    bench.started(launch)
    (bench.paths(launch).job.run / "go").touch()
    assert bench.ended(launch).exit_code == 6
    assert bench.output(launch) == b"done\n"


def test_start_after_the_service_was_killed_runs_nothing_twice(bench: Any) -> None:
    launch = bench.launch(WAIT_FOR_GO)
    start_and_kill_service(bench.root, WAIT_FOR_GO)
    bench.executor().start(launch)
    bench.started(launch)
    (bench.paths(launch).job.run / "go").touch()
    assert bench.ended(launch).exit_code == 6
    assert bench.file(launch, "ran").read_text() == "ran\n"


def test_a_worker_that_ended_meanwhile(bench: Any) -> None:
    launch = bench.launch(WAIT_FOR_GO)
    start_and_kill_service(bench.root, WAIT_FOR_GO)
    (bench.paths(launch).job.run / "go").touch()
    bench.until(bench.paths(launch).exit.exists)
    bench.executor().adopt(launch.worker, launch.node)
    assert bench.ended(launch).exit_code == 6
    assert [type(e) for e in bench.recorder.events] == [WorkerStarted, WorkerExited]
    started, exited = bench.recorder.events
    assert started.at <= exited.at


class SetClock:
    """The service's, when somebody has set the machine's back by an hour."""

    def now(self) -> float:
        return time.time() + 3600.0


def test_moments_are_those_of_the_services_clock(bench: Any) -> None:
    """Else a step of the machine's clock would make a short run long, or a long one short."""
    launch = bench.launch(WAIT_FOR_GO)
    start_and_kill_service(bench.root, WAIT_FOR_GO)
    (bench.paths(launch).job.run / "go").touch()
    bench.until(bench.paths(launch).exit.exists)
    before = time.time()
    bench.executor(clock=SetClock()).adopt(launch.worker, launch.node)
    bench.ended(launch)
    started, exited = bench.recorder.events
    assert before + 1800.0 < started.at <= exited.at <= time.time() + 3600.0
    assert json.loads(bench.paths(launch).exit.read_text())["at"] < before + 1800.0, "the shim cannot know"


def test_a_worker_can_be_stopped_after_adoption(bench: Any) -> None:
    launch = bench.launch("exec sleep 1000")
    start_and_kill_service(bench.root, "exec sleep 1000")
    executor = bench.executor()
    executor.stop(launch.worker, launch.node, 0)
    assert bench.ended(launch).signal == signal.SIGKILL


@pytest.mark.parametrize("watched", [True, False])
def test_the_shim_is_killed(bench: Any, watched: bool) -> None:
    """While the service watches, or while it is away. The daemon left session and parent: its environment tells."""
    command = "setsid sh -c 'setsid sleep 1000 & echo $! > daemon'; exec sleep 2000"
    launch = bench.launch(command)
    executor = bench.executor()
    executor.start(launch)
    daemon = bench.pid_in(launch, "daemon")
    if not watched:
        bench.started(launch)
        executor.close()
    os.kill(shim_pid(bench, launch), signal.SIGKILL)
    if not watched:
        bench.executor().adopt(launch.worker, launch.node)
    outcome = bench.ended(launch)
    assert (outcome.ending, outcome.signal) == (Ending.SIGNALLED, signal.SIGKILL)
    assert outcome.detail == "its supervisor was killed"
    assert bench.dead(daemon)
    assert bench.strays() == []


def test_leftovers_without_our_environment_are_found_by_their_session(bench: Any) -> None:
    launch = bench.launch("env -i sleep 1000 & echo $! > child; wait")
    executor = bench.executor()
    executor.start(launch)
    child = bench.pid_in(launch, "child")
    os.kill(shim_pid(bench, launch), signal.SIGKILL)
    assert bench.ended(launch).detail == "its supervisor was killed"
    assert bench.dead(child)


def test_leftovers_of_another_data_folder_are_left_alone(bench: Any) -> None:
    """Another service on this machine has a worker 1.1.0, too."""
    launch = bench.launch("exec sleep 1000")
    env = {"SCHEDULEARN_WORKER": "1.1.0", "SCHEDULEARN_CONTROL": "/elsewhere/control.json"}
    with subprocess.Popen(["sleep", "1000"], env=env) as stranger:
        executor = bench.executor()
        executor.start(launch)
        bench.started(launch)
        os.kill(shim_pid(bench, launch), signal.SIGKILL)
        bench.ended(launch)
        assert stranger.poll() is None
        stranger.kill()


def test_control_groups_of_a_killed_shim_are_removed(bench: Any, real_cgroups: Any) -> None:
    launch = bench.launch("env -i setsid sleep 1000 & echo $! > child; wait", cpu_limit=1.0)
    executor = bench.executor(cgroups=real_cgroups)
    executor.start(launch)
    child = bench.pid_in(launch, "child")
    assert bench.groups()
    os.kill(shim_pid(bench, launch), signal.SIGKILL)
    bench.ended(launch)
    assert bench.groups() == []
    assert bench.dead(child)


def rewrite(path: Path, what: str, **changes: object) -> None:
    """Change a record of a worker, as its shim would have written it."""
    record = json.loads(path.read_text()) | changes
    record.pop("signature")
    path.write_text(json.dumps(signed(record, what, worker_key(path.parent))))


def test_the_machine_was_restarted(bench: Any) -> None:
    launch = bench.launch("true")
    bench.run(launch)
    paths = bench.paths(launch)
    paths.exit.unlink()
    rewrite(paths.claim, CLAIM, boot_id="an earlier boot", pid=os.getpid())
    bench.executor().adopt(launch.worker, launch.node)
    outcome = bench.ended(launch, count=2)
    assert (outcome.ending, outcome.detail) == (Ending.LOST, "the machine was restarted")
    assert not outcome.counts_as_failure


def test_a_recorded_end_outlives_a_restart_of_the_machine(bench: Any) -> None:
    launch = bench.launch("exit 4")
    bench.run(launch)
    paths = bench.paths(launch)
    for path, what in ((paths.claim, CLAIM), (paths.exit, EXIT)):
        rewrite(path, what, boot_id="an earlier boot")
    bench.executor().adopt(launch.worker, launch.node)
    assert bench.ended(launch, count=2).exit_code == 4


@pytest.mark.parametrize("content", [b"{", b"[]", b"\0" * 512])
def test_a_damaged_claim(bench: Any, content: bytes) -> None:
    """After a power cut a file may hold anything. What it says cannot be trusted, but it was claimed."""
    launch = bench.launch("echo ran >> ran")
    make_worker_folder(bench.paths(launch))
    bench.paths(launch).claim.write_bytes(content)
    bench.executor().start(launch)
    assert bench.ended(launch).ending is Ending.LOST


def test_a_late_shim_of_a_worker_given_up_does_not_run(bench: Any) -> None:
    """The service died between spawning the shim and hearing of it; the next life came before the shim did."""
    launch = bench.launch("echo ran >> ran")
    paths = bench.paths(launch)
    make_worker_folder(paths)
    prepare(launch, paths, Limits([], [], 1 << 20, 1))
    bench.executor().adopt(launch.worker, launch.node)
    assert bench.ended(launch).ending is Ending.LOST
    spawn(paths)
    assert not (paths.job.run / "ran").exists()
    assert void(paths.claim) is False


def test_a_half_prepared_worker_is_prepared_again(bench: Any) -> None:
    launch = bench.launch("echo hello")
    paths = bench.paths(launch)
    make_worker_folder(paths)
    (paths.job.folder / "run.tmp").mkdir()
    (paths.job.folder / "run.tmp" / "half").touch()
    write_file(paths.token, b"old")
    assert bench.run(launch).ok
    assert list(paths.job.run.iterdir()) == []
    assert bench.output(launch) == b"hello\n"
