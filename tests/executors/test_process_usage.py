"""What workers use, and limits that change while they run: real processes, with control groups and without."""

import json
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.events import LimitsSet
from schedulearn.core.domain.outcome import Ending
from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.spec import WorkerResources
from schedulearn.core.domain.usage import Limits, Usage, cores_used
from schedulearn.executors.kernel.groups import NO_CGROUPS, Cgroups
from schedulearn.executors.kernel.procfs import descendants
from schedulearn.executors.process.claim import read_claim
from schedulearn.executors.process.executor import ProcessExecutor

MB = 1_000_000
FOREVER = "echo up > up; exec sleep 1000"
BURN = "while True: pass"
HOLD = "held = b'x' * 60_000_000\nprint('held', flush=True)\nimport time; time.sleep(1000)"
# Four processes share the same 60 MB.
SHARE = HOLD.replace("print", "import os; os.fork(); os.fork()\nprint")
# Written and read without the help of the page cache; mmap gives memory that is aligned as the disk wants it.
TRAFFIC = """
import mmap, os, time
block = mmap.mmap(-1, 4 << 20)
fd = os.open("data", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
os.write(fd, block)
os.fsync(fd)
os.preadv(fd, [block], 0)
print("done", flush=True)
time.sleep(1000)
"""
CHILDREN = """
import subprocess, sys, time
burn = "import time\\nwhile time.process_time() < 0.5: pass"
subprocess.run([sys.executable, "-c", burn])
print("done", flush=True)
time.sleep(1000)
"""

# The same work by a process whose parent has ended: nobody but the shim waits for it.
ORPHAN = """
import os, time
if os.fork() == 0:
    if os.fork() == 0:
        while time.process_time() < 0.5: pass
        os._exit(0)
    os._exit(0)
os.wait()
print("done", flush=True)
time.sleep(1000)
"""


@pytest.fixture(params=["groups", "proc"])
def cgroups(request: pytest.FixtureRequest) -> Cgroups:
    """Measured by control groups, and from /proc alone."""
    if request.param == "proc":
        return NO_CGROUPS
    found: Cgroups = request.getfixturevalue("real_cgroups")
    return found


def running(bench: Any, launch: Launch, said: bytes = b"", **options: Any) -> ProcessExecutor:
    executor: ProcessExecutor = bench.executor(**options)
    executor.start(launch)
    bench.started(launch)
    bench.until(lambda: said in bench.output(launch), f"the worker says {said!r}")
    return executor


def look(executor: ProcessExecutor, launch: Launch) -> Usage:
    usage = executor.usage(launch.worker, launch.node)
    assert usage is not None
    return usage


def stop(bench: Any, executor: ProcessExecutor, launch: Launch) -> None:
    executor.stop(launch.worker, launch.node, 0)
    bench.ended(launch)


def test_cpu_time_grows_with_the_work(bench: Any, cgroups: Cgroups) -> None:
    launch = bench.python(BURN)
    executor = running(bench, launch, cgroups=cgroups)
    first = look(executor, launch)
    later = bench.until(lambda: (now := look(executor, launch)).cpu_seconds > first.cpu_seconds + 0.3 and now)
    rate = cores_used(first, later)
    assert rate is not None
    assert rate > 0
    assert later.at > first.at
    stop(bench, executor, launch)
    assert executor.usage(launch.worker, launch.node) is None, "it has ended"


def test_children_that_ended_count(bench: Any, cgroups: Cgroups) -> None:
    launch = bench.python(CHILDREN)
    executor = running(bench, launch, b"done", cgroups=cgroups)
    assert look(executor, launch).cpu_seconds >= 0.45  # of half a second: ticks are rounded down
    stop(bench, executor, launch)


def test_an_orphan_that_ended_counts(bench: Any, cgroups: Cgroups) -> None:
    launch = bench.python(ORPHAN)
    executor = running(bench, launch, b"done", cgroups=cgroups)
    shim = read_claim(bench.paths(launch).claim)
    assert shim is not None
    bench.until(lambda: len(descendants(shim.pid)) == 1, "the orphan has ended")
    assert look(executor, launch).cpu_seconds >= 0.45  # of half a second: ticks are rounded down
    stop(bench, executor, launch)


@pytest.mark.parametrize(("code", "count"), [(HOLD, 1), (SHARE, 4)], ids=["one process", "four that share it"])
def test_memory_is_what_the_tree_holds(bench: Any, cgroups: Cgroups, code: str, count: int) -> None:
    launch = bench.python(code)
    executor = running(bench, launch, cgroups=cgroups)
    bench.until(lambda: bench.output(launch).count(b"held") == count)
    memory = look(executor, launch).memory
    assert memory is not None
    assert 60 * MB < memory < 150 * MB
    stop(bench, executor, launch)


def test_block_traffic(bench: Any, cgroups: Cgroups) -> None:
    launch = bench.python(TRAFFIC)
    executor = running(bench, launch, b"done", cgroups=cgroups)
    usage = bench.until(lambda: (now := look(executor, launch)).written_bytes and now)
    assert usage.written_bytes >= 4 << 20
    assert usage.read_bytes >= 4 << 20
    stop(bench, executor, launch)


def test_what_a_plain_process_cannot_tell(bench: Any, cgroups: Cgroups) -> None:
    """It shares the machine's network, so nobody knows what part of the traffic is its own."""
    launch = bench.launch(FOREVER)
    executor = running(bench, launch, cgroups=cgroups)
    usage = look(executor, launch)
    assert (usage.received_bytes, usage.sent_bytes) == (None, None)
    stop(bench, executor, launch)


def test_an_unknown_worker_uses_nothing(bench: Any) -> None:
    launch = bench.launch(FOREVER)
    assert bench.executor().usage(launch.worker, launch.node) is None


# --- limits that change


def group_file(bench: Any, *names: str) -> Path:
    """The first of these files that a group of the one worker has: their names differ between the versions."""
    groups: list[Path] = bench.groups()
    return next(group / name for name in names for group in groups if (group / name).exists())


def limits_set(bench: Any, launch: Launch, count: int = 1) -> LimitsSet:
    event: LimitsSet = bench.recorder.wait(LimitsSet, launch.worker, count)
    return event


def control(bench: Any, launch: Launch) -> Any:
    return json.loads(bench.paths(launch).control.read_bytes())


def test_limits_change_while_it_runs(bench: Any, real_cgroups: Cgroups) -> None:
    launch = bench.python(BURN, cpu_limit=1.0, spec={"resources": WorkerResources(memory=500 * MB)})
    executor = running(bench, launch, cgroups=real_cgroups)
    executor.set_limits(launch.worker, launch.node, Limits(cpus=0.125, weight=30, memory=200 * MB))
    event = limits_set(bench, launch)
    assert event.problem == ""
    assert (event.limits.cpus, event.limits.weight) == (0.125, 30)
    assert group_file(bench, "cpu.max", "cpu.cfs_quota_us").read_text().split()[0] == "12500"
    assert group_file(bench, "cpu.weight", "cpu.shares").read_text().strip() in ("30", "307")
    memory = int(group_file(bench, "memory.max", "memory.limit_in_bytes").read_text())
    assert 0 <= 200 * MB - memory < 65536, "kernels count pages"
    assert look(executor, launch).limits == event.limits
    group = {"world_size": 1, "generation": 0, "members": [0]}
    assert control(bench, launch) == {"cpus": 0.125, "threads": 1, "memory": 200 * MB, **group}
    throttled(bench)
    stop(bench, executor, launch)


def throttled(bench: Any) -> None:
    """The kernel really holds it back: at an eighth of a core a busy loop is stopped in every period."""
    stat = group_file(bench, "cpu.max", "cpu.cfs_quota_us").with_name("cpu.stat")

    def count() -> int:
        return int(dict(line.split() for line in stat.read_text().splitlines())["nr_throttled"])

    before = count()
    bench.until(lambda: count() > before + 3, "it is throttled")


def test_a_limit_that_grows_again(bench: Any, real_cgroups: Cgroups) -> None:
    launch = bench.launch(FOREVER, cpu_limit=0.5, spec={"resources": WorkerResources(memory=100 * MB)})
    executor = running(bench, launch, cgroups=real_cgroups)
    executor.set_limits(launch.worker, launch.node, Limits(cpus=1.75, memory=300 * MB))
    assert limits_set(bench, launch).limits.cpus == 1.75
    assert control(bench, launch)["threads"] == 1
    assert control(bench, launch)["memory"] > 299 * MB
    stop(bench, executor, launch)


def test_what_is_in_force_already_changes_nothing(bench: Any, real_cgroups: Cgroups) -> None:
    launch = bench.launch(FOREVER, cpu_limit=1.0)
    executor = running(bench, launch, cgroups=real_cgroups)
    for cpus in (1 / 3, 1 / 3, 0.7):
        executor.set_limits(launch.worker, launch.node, Limits(cpus=cpus))
    assert limits_set(bench, launch, count=2).limits.cpus == 0.7
    stop(bench, executor, launch)


def test_a_limit_outlives_the_service(bench: Any, real_cgroups: Cgroups) -> None:
    launch = bench.launch(FOREVER, cpu_limit=1.0)
    first = running(bench, launch, cgroups=real_cgroups)
    first.set_limits(launch.worker, launch.node, Limits(cpus=0.25, weight=55))
    in_force = limits_set(bench, launch).limits
    first.close()
    second = bench.executor(cgroups=real_cgroups)
    second.adopt(launch.worker, launch.node)
    bench.started(launch, count=2)
    assert look(second, launch).limits == in_force
    stop(bench, second, launch)


def test_without_groups_a_change_is_refused(bench: Any) -> None:
    launch = bench.launch(FOREVER, cpu_limit=1.0)
    executor = running(bench, launch)
    before = control(bench, launch)
    executor.set_limits(launch.worker, launch.node, Limits(cpus=0.5))
    event = limits_set(bench, launch)
    assert "control groups" in event.problem
    assert control(bench, launch) == before
    stop(bench, executor, launch)


def test_less_memory_than_it_holds_is_refused_with_all_that_came_with_it(bench: Any, real_cgroups: Cgroups) -> None:
    launch = bench.python(HOLD, cpu_limit=1.0, spec={"resources": WorkerResources(memory=500 * MB)})
    executor = running(bench, launch, b"held", cgroups=real_cgroups)
    before, told = look(executor, launch).limits, control(bench, launch)
    executor.set_limits(launch.worker, launch.node, Limits(cpus=0.5, memory=30 * MB))
    assert "below the" in limits_set(bench, launch).problem
    assert look(executor, launch).limits == before
    assert control(bench, launch) == told
    stop(bench, executor, launch)


def test_limits_of_a_worker_that_does_not_run_change_nothing(bench: Any, real_cgroups: Cgroups) -> None:
    launch = bench.launch("true")
    executor = bench.executor(cgroups=real_cgroups)
    executor.set_limits(launch.worker, launch.node, Limits(cpus=0.5))
    executor.start(launch)
    bench.ended(launch)
    executor.set_limits(launch.worker, launch.node, Limits(cpus=0.5))
    assert not any(isinstance(event, LimitsSet) for event in bench.recorder.events)


def test_a_new_memory_limit_is_the_one_that_is_named_when_it_is_exceeded(bench: Any, real_cgroups: Cgroups) -> None:
    code = "import time\nwhile True:\n    try: open('go').close(); break\n    except OSError: time.sleep(0.01)\n"
    code += "held = b'x' * 300_000_000"
    launch = bench.python(code, spec={"resources": WorkerResources(memory=900 * MB)})
    executor = running(bench, launch, cgroups=real_cgroups)
    executor.set_limits(launch.worker, launch.node, Limits(memory=100 * MB))
    limits_set(bench, launch)
    (bench.paths(launch).job.run / "go").touch()
    outcome = bench.ended(launch)
    assert (outcome.ending, outcome.memory_limit) == (Ending.OUT_OF_MEMORY, 100 * MB)
