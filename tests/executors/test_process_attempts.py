"""One writer at a time: an attempt's end is told only when every process of it has gone, however it ended."""

import os
import signal
from dataclasses import replace
from typing import Any

import pytest

from schedulearn.core.domain.events import Event, WorkerExited
from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.core.domain.ports import Launch
from schedulearn.executors.process.claim import read_claim

# A process with two more below it: a child in the same session, and a daemon that has left session and parents. All
# ignore SIGTERM, note their pids, and write into the checkpoint folder as fast as they can. The first then does `end`.
CROWD = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)

def write():
    with open("pids", "a") as pids:
        pids.write(f"{os.getpid()}\\n")
    while True:
        with open(os.path.join(os.environ["SCHEDULEARN_CHECKPOINT_DIR"], "saved"), "a") as saved:
            saved.write("mine\\n")

if os.fork() == 0:
    write()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        write()
    os._exit(0)
with open("pids", "a") as pids:
    pids.write(f"{os.getpid()}\\n")
while len(open("pids").readlines()) < 3:
    time.sleep(0.01)
open("ready", "w").write("yes")
"""
STAYS = CROWD + "time.sleep(1000)"
LEAVES = CROWD + "sys.exit(3)"
SECOND = """
import os
def lives(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
alive = [pid for pid in open("pids").read().split() if lives(pid)]
folder = os.environ["SCHEDULEARN_CHECKPOINT_DIR"]
size = os.path.getsize(os.path.join(folder, "saved"))
for _ in range(200):
    os.sched_yield()
grown = os.path.getsize(os.path.join(folder, "saved")) - size
open("seen", "w").write(f"{len(alive)} {grown}")
"""


class Witness:
    """Takes the executor's events, and looks at the moment of each end who of the crowd is still there."""

    def __init__(self, bench: Any) -> None:
        self._bench = bench
        self.survivors: dict[WorkerId, list[int]] = {}

    def __call__(self, event: Event) -> None:
        if isinstance(event, WorkerExited):
            pids = self._bench.root / "jobs" / str(event.worker.job) / "run" / "pids"
            self.survivors[event.worker] = [
                int(pid) for pid in pids.read_text().split() if not self._bench.dead(int(pid))
            ]
        self._bench.recorder(event)


def stopped(bench: Any, launch: Launch, executor: Any) -> None:
    executor.stop(launch.worker, launch.node, 0.2)


def killed(bench: Any, launch: Launch, executor: Any) -> None:
    os.kill(_claim(bench, launch).child_pid, signal.SIGKILL)


def supervisor_killed(bench: Any, launch: Launch, executor: Any) -> None:
    os.kill(_claim(bench, launch).pid, signal.SIGKILL)


def _claim(bench: Any, launch: Launch) -> Any:
    return read_claim(bench.paths(launch).claim)


@pytest.mark.parametrize("end", [stopped, killed, supervisor_killed])
def test_nobody_is_left_when_the_end_is_told(bench: Any, end: Any) -> None:
    witness = Witness(bench)
    executor = bench.executor(sink=witness)
    first = bench.python(STAYS)
    executor.start(first)
    bench.file(first, "ready")
    end(bench, first, executor)
    bench.ended(first)
    assert witness.survivors[first.worker] == []
    _the_next_is_alone(bench, executor, first)


def test_nobody_is_left_when_it_ends_by_itself(bench: Any) -> None:
    witness = Witness(bench)
    executor = bench.executor(sink=witness)
    first = bench.python(LEAVES)
    executor.start(first)
    assert bench.ended(first).exit_code == 3
    assert witness.survivors[first.worker] == []
    _the_next_is_alone(bench, executor, first)


def test_nobody_is_left_when_the_service_was_away_at_the_end(bench: Any) -> None:
    witness = Witness(bench)
    executor = bench.executor(sink=witness)
    first = bench.python(STAYS)
    executor.start(first)
    bench.file(first, "ready")
    executor.close()
    os.kill(_claim(bench, first).pid, signal.SIGKILL)
    later = bench.executor(sink=witness)
    later.adopt(first.worker, first.node)
    bench.ended(first)
    assert witness.survivors[first.worker] == []
    _the_next_is_alone(bench, later, first)


def _the_next_is_alone(bench: Any, executor: Any, first: Launch) -> None:
    """The next attempt starts at once, and finds nobody of the first, and a checkpoint folder that nobody writes."""
    second = replace(bench.python(SECOND), worker=WorkerId(JobId(first.worker.job), 2, 0))
    executor.start(second)
    assert bench.ended(second).ok
    assert bench.file(second, "seen").read_text() == "0 0"
