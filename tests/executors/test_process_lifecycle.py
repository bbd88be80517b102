"""How real processes start, end, misbehave, and are brought down with their whole tree."""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.events import WorkerPaused
from schedulearn.core.domain.outcome import Ending
from schedulearn.executors.common.folders import make_worker_folder
from schedulearn.executors.kernel.procfs import start_time, stat_fields
from schedulearn.executors.process.claim import read_claim
from schedulearn.executors.process.prepare import Limits, prepare
from schedulearn.executors.process.shim import Supervisor
from schedulearn.executors.process.spawn import spawn

# Double fork with a new session: the classic way out of a process group.
FORK_AWAY = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open('daemon.tmp', 'w').write(str(os.getpid()))
        os.rename('daemon.tmp', 'daemon')
        time.sleep(1000)
    os._exit(0)
while not os.path.exists('daemon'):
    time.sleep(0.01)
"""
# A new orphan every 20 ms, each gone after two seconds: never more than about 100, and an end even if nobody kills it.
KEEP_FORKING = """
import os, time
for _ in range(500):
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            time.sleep(2)
        os._exit(0)
    os.waitpid(child, 0)
    time.sleep(0.02)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGPIPE])
def test_a_signal_is_reported(bench: Any, number: int) -> None:
    outcome = bench.run(bench.launch(f"kill -{int(number)} $$; sleep 100"))
    assert (outcome.ending, outcome.signal, outcome.exit_code) == (Ending.SIGNALLED, number, None)


def test_a_command_that_the_shell_does_not_find(bench: Any) -> None:
    outcome = bench.run(bench.launch("no-such-program-anywhere"))
    assert outcome.exit_code == 127
    assert outcome.words() == "exit code 127: command not found"


def test_a_file_that_may_not_be_executed(bench: Any) -> None:
    outcome = bench.run(bench.launch(("/etc/passwd",)))
    assert (outcome.ending, outcome.detail) == (Ending.NOT_STARTED, "cannot run '/etc/passwd': Permission denied")


def test_a_null_byte_in_the_command(bench: Any) -> None:
    outcome = bench.run(bench.launch(("echo", "a\0b")))
    assert outcome.ending is Ending.NOT_STARTED
    assert "null byte" in outcome.detail


def test_signals_that_python_ignores_work_in_the_job(bench: Any) -> None:
    launch = bench.launch("grep SigIgn /proc/self/status; grep SigBlk /proc/self/status")
    assert bench.run(launch).ok
    masks = [int(line.split()[1], 16) for line in bench.output(launch).splitlines()]
    assert [mask & 0x7FFFFFFF for mask in masks] == [0, 0]  # above these are the C library's own


def test_the_record_of_the_end(bench: Any) -> None:
    launch = bench.launch("exit 3")
    bench.run(launch)
    record = json.loads(bench.paths(launch).exit.read_text())
    expected = {"exit_code": 3, "signal": None, "oom": False, "stopped": False, "not_started": False, "detail": ""}
    assert expected.items() <= record.items()
    assert record["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_the_record_of_a_stop_says_so(bench: Any) -> None:
    launch = bench.launch("exec sleep 1000")
    executor = bench.executor()
    executor.start(launch)
    executor.stop(launch.worker, launch.node, 100)
    bench.ended(launch)
    assert json.loads(bench.paths(launch).exit.read_text())["stopped"] is True


def test_no_zombie_is_left(bench: Any) -> None:
    launch = bench.launch("true")
    bench.run(launch)
    claim = read_claim(bench.paths(launch).claim)
    assert claim is not None
    assert start_time(claim.pid) is None


def test_a_daemon_dies_with_the_main_process(bench: Any) -> None:
    launch = bench.python(FORK_AWAY)
    assert bench.run(launch).ok
    assert bench.dead(bench.pid_in(launch, "daemon"))


def test_a_supervisor_that_somebody_stopped_is_told_to_end_all_the_same(bench: Any) -> None:
    executor, launch = bench.executor(), bench.launch("exec sleep 1000")
    executor.start(launch)
    bench.started(launch)
    claim = read_claim(bench.paths(launch).claim)
    assert claim
    os.kill(claim.pid, signal.SIGSTOP)
    bench.until(lambda: stat_fields(claim.pid)[0] == "T", "it stands still")
    executor.stop(launch.worker, launch.node, 30.0)
    assert bench.ended(launch).signal == signal.SIGTERM


def test_a_daemon_dies_in_a_stop(bench: Any) -> None:
    launch = bench.python(FORK_AWAY.replace("time.sleep(1000)", "time.sleep(2000)") + "time.sleep(1000)")
    executor = bench.executor()
    executor.start(launch)
    daemon = bench.pid_in(launch, "daemon")
    executor.stop(launch.worker, launch.node, 0)
    bench.ended(launch)
    assert bench.dead(daemon)


def test_processes_that_keep_forking_are_all_killed(bench: Any) -> None:
    launch = bench.python(KEEP_FORKING)
    executor = bench.executor()
    executor.start(launch)
    bench.until(lambda: len(bench.strays()) > 5)
    executor.stop(launch.worker, launch.node, 0)
    bench.ended(launch)
    assert bench.strays() == []


def test_the_child_of_a_shell_keeps_its_grace(bench: Any) -> None:
    """The shell dies of SIGTERM at once; the training below it must still be able to save."""
    saver = (
        "import signal, sys, time\n"
        "def save(*_):\n    time.sleep(0.5); open('saved', 'w').write('x'); sys.exit(0)\n"
        "signal.signal(15, save); open('up', 'w').write('x'); time.sleep(1000)"
    )
    launch = bench.launch(f'true; {sys.executable} -c "{saver}"; true')
    executor = bench.executor()
    executor.start(launch)
    bench.file(launch, "up")
    executor.stop(launch.worker, launch.node, 60)
    assert bench.ended(launch).signal == signal.SIGTERM
    assert bench.file(launch, "saved").read_text() == "x"


def test_pause_stops_the_whole_tree(bench: Any) -> None:
    launch = bench.launch("sleep 1000 & echo $! > child; wait")
    executor = bench.executor()
    executor.start(launch)
    child = bench.pid_in(launch, "child")
    executor.pause(launch.worker, launch.node)
    bench.until(lambda: _state(child) == "T")
    executor.resume(launch.worker, launch.node)
    bench.until(lambda: _state(child) == "S")
    executor.stop(launch.worker, launch.node, 0)
    bench.ended(launch)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_two_executors_start_the_same_worker_at_once(bench: Any) -> None:
    """Two services on one data folder must not happen; if they do, a worker still runs once."""
    launches = [bench.launch("echo ran >> ran; sleep 0.2", job=job) for job in range(1, 9)]
    executors = [bench.executor() for _ in range(2)]
    line = threading.Barrier(2)

    def start_all(executor: Any) -> None:
        line.wait()
        for launch in launches:
            executor.start(launch)

    threads = [threading.Thread(target=start_all, args=[executor]) for executor in executors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for launch in launches:
        assert bench.ended(launch, count=2).ok
        assert bench.file(launch, "ran").read_text() == "ran\n"


def test_two_shims_of_the_same_worker(bench: Any) -> None:
    """Even without the starter's lock the claim lets only one through."""
    launch = bench.launch("echo ran >> ran; sleep 0.2")
    paths = bench.paths(launch)
    make_worker_folder(paths)
    prepare(launch, paths, Limits([], [], 1 << 20, 1))
    threads = [threading.Thread(target=spawn, args=[paths]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bench.executor().adopt(launch.worker, launch.node)
    assert bench.ended(launch).ok
    assert bench.file(launch, "ran").read_text() == "ran\n"


def test_many_workers_of_one_job_share_its_run_folder(bench: Any) -> None:
    launches = [bench.launch("echo $SCHEDULEARN_WORKER > $SCHEDULEARN_WORKER", rank=rank) for rank in range(6)]
    executor = bench.executor()
    for launch in launches:
        executor.start(launch)
    for launch in launches:
        assert bench.ended(launch).ok
    run = bench.paths(launches[0]).job.run
    assert sorted(p.name for p in run.iterdir()) == [f"1.1.{rank}" for rank in range(6)]


def test_an_event_sink_that_fails_stops_nothing(bench: Any) -> None:
    seen = []

    def fail(event: Any) -> None:
        seen.append(event)
        raise RuntimeError("the service has a bug")

    launch = bench.launch("true")
    bench.executor(sink=fail).start(launch)
    bench.until(lambda: len(seen) == 2)


def test_closing_ends_nothing(bench: Any) -> None:
    launch = bench.launch("exec sleep 1000")
    executor = bench.executor()
    executor.start(launch)
    bench.started(launch)
    executor.close()
    executor.close()
    bench.until(lambda: len(bench.strays()) == 1, "its process runs on")


def test_a_pause_that_was_taken_back_before_it_worked_is_never_confirmed(bench: Any) -> None:
    """Its supervisor hangs, and hears of both only later."""
    launch = bench.launch("exec sleep 1000")
    executor = bench.executor()
    executor.start(launch)
    bench.started(launch)
    claim = read_claim(bench.paths(launch).claim)
    os.kill(claim.pid, signal.SIGSTOP)
    executor.pause(launch.worker, launch.node)
    executor.resume(launch.worker, launch.node)
    executor.adopt(launch.worker, launch.node)
    bench.started(launch, count=2)  # told after the two before it were carried out
    os.kill(claim.child_pid, signal.SIGSTOP)  # as somebody else might
    executor.adopt(launch.worker, launch.node)
    bench.started(launch, count=3)
    assert not [event for event in bench.recorder.events if isinstance(event, WorkerPaused)]


def test_nothing_at_all_happens_in_a_worker_whose_pause_was_confirmed(bench: Any) -> None:
    launch = bench.launch("(while true; do echo child >> ticks; done) & while true; do echo tick >> ticks; done")
    executor = bench.executor()
    executor.start(launch)
    executor.pause(launch.worker, launch.node)  # at once: it is confirmed after the start
    bench.recorder.wait(WorkerPaused, launch.worker)
    for count in (2, 3):
        executor.resume(launch.worker, launch.node)
        before = bench.file(launch, "ticks").stat().st_size
        bench.until(lambda size=before: bench.file(launch, "ticks").stat().st_size > size, "it goes on")
        executor.pause(launch.worker, launch.node)
        bench.recorder.wait(WorkerPaused, launch.worker, count)
        silent = bench.file(launch, "ticks").stat().st_size
        time.sleep(0.05)  # a process that still ran would write thousands of lines in it
        assert bench.file(launch, "ticks").stat().st_size == silent
    executor.stop(launch.worker, launch.node, 0)
    bench.ended(launch)


def test_a_program_that_is_over_before_its_supervisor_looks_was_started(tmp_path: Path) -> None:
    supervisor = Supervisor(str(tmp_path), claim_fd=-1, ready_fd=None, key=b"")
    supervisor.wake, waking = os.pipe()
    hears, says = os.pipe()
    os.close(says)
    supervisor.child = os.posix_spawn("/bin/true", ["true"], {})
    os.waitid(os.P_PID, supervisor.child, os.WEXITED | os.WNOWAIT)
    assert supervisor._hear(hears) == b""
    os.waitpid(supervisor.child, 0)
    for fd in (supervisor.wake, waking, hears):
        os.close(fd)
