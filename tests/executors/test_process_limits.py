"""CPU and memory limits, with control groups and without."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.core.domain.outcome import Ending
from schedulearn.core.domain.spec import WorkerResources
from schedulearn.executors.common.paths import read_orders
from schedulearn.executors.kernel.groups import NO_CGROUPS, Cgroups
from schedulearn.executors.process.cgroups import MOST_PROCESSES, detect, plan
from schedulearn.executors.process.cores import Cores
from schedulearn.executors.process.groups import (
    close_groups,
    controllers_of,
    enter_groups,
    killed_for_memory,
    make_groups,
)
from support.bench import DEADLINE

MB = 1_000_000
EAT = """
import time
held = []
for _ in range(40):
    held.append(bytearray(10_000_000))
    time.sleep(0.02)
time.sleep(1000)
"""
# Parent and child touch the same 60 MB: together they hold 60, not 120.
SHARE = """
import os, time
held = bytearray(60_000_000)
held[::4096] = b'x' * len(held[::4096])
if os.fork() == 0:
    sum(held[::4096])
    time.sleep(1.5)
    os._exit(0)
os.wait()
"""
# A shim with one child is told to end all.
KILL = """
import os, time
from schedulearn.executors.process import shim as module
child = os.fork()
if child == 0:
    time.sleep(1000)
module.close_groups = lambda _: print('alive', os.waitpid(child, os.WNOHANG) == (0, 0))
shim = module.Supervisor('/nowhere', -1, None, b'')
shim.groups = []
shim._kill_tree()
print('over', shim.childless)
"""


def needs(limit: int) -> dict[str, Any]:
    return {"resources": WorkerResources(memory=limit)}


def test_a_cpu_quota(bench: Any, real_cgroups: Cgroups) -> None:
    launch = bench.launch("echo up > up; exec sleep 1000", cpu_limit=0.5)
    executor = bench.executor(cgroups=real_cgroups)
    executor.start(launch)
    bench.file(launch, "up")
    group = next(g for g in bench.groups() if (g / "cpu.max").exists() or (g / "cpu.cfs_quota_us").exists())
    if real_cgroups.unified:
        assert (group / "cpu.max").read_text() == "50000 100000\n"
    else:
        assert (group / "cpu.cfs_quota_us").read_text() == "50000\n"
        assert (group / "cpu.cfs_period_us").read_text() == "100000\n"
    assert (group / "cgroup.procs").read_text().split()
    executor.stop(launch.worker, launch.node, 0)
    bench.ended(launch)
    assert bench.groups() == []


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="with one core there is nothing to choose from")
@pytest.mark.parametrize("broken", [False, True])
def test_affinity_where_no_group_can_be_made(bench: Any, broken: bool) -> None:
    """Because none is permitted, or because the file system refuses although it seemed to be."""
    groups = Cgroups(cpu=Path("/proc/nowhere")) if broken else NO_CGROUPS
    launch = bench.python("import os; print(len(os.sched_getaffinity(0)))", cpu_limit=0.7)
    assert bench.run(launch, cgroups=groups).ok
    assert bench.output(launch) == b"1\n"


def test_no_limit_pins_nothing(bench: Any) -> None:
    launch = bench.python("import os; print(len(os.sched_getaffinity(0)))")
    assert bench.run(launch).ok
    assert int(bench.output(launch)) == len(os.sched_getaffinity(0))


def test_pinned_workers_spread() -> None:
    cores, workers = Cores(range(4)), [WorkerId(JobId(1), 1, rank) for rank in range(4)]
    assert [cores.take(workers[rank], limit) for rank, limit in enumerate((2, 0.5, 1))] == [[0, 1], [2], [3]]
    cores.release(workers[0])
    assert cores.take(workers[3], 1.5) == [0, 1]
    cores.adopt(workers[0], [2, 3])
    cores.release(workers[3])
    assert cores.take(workers[3], 2) == [0, 1]
    assert cores.take(workers[3], 4) == []


def test_out_of_memory_in_a_group(bench: Any, real_cgroups: Cgroups) -> None:
    launch = bench.python(EAT, spec=needs(80 * MB))
    outcome = bench.run(launch, cgroups=real_cgroups)
    assert (outcome.ending, outcome.memory_limit) == (Ending.OUT_OF_MEMORY, 80 * MB)
    assert outcome.words() == "killed by SIGKILL: out of memory (limit 80 MB)"
    assert bench.groups() == []


def test_out_of_memory_of_a_child_fails_the_worker(bench: Any, real_cgroups: Cgroups) -> None:
    """The kernel may pick a child; the main process then ends with an error of its own, which is not the cause."""
    code = f"import os, sys\nif os.fork() == 0:\n    exec({EAT!r})\nsys.exit(5 if os.wait()[1] else 0)"
    outcome = bench.run(bench.python(code, spec=needs(80 * MB)), cgroups=real_cgroups)
    assert outcome.ending is Ending.OUT_OF_MEMORY


def test_a_group_that_was_not_exceeded(bench: Any, real_cgroups: Cgroups) -> None:
    launch = bench.launch("kill -9 $$", spec=needs(80 * MB), cpu_limit=1.0)
    outcome = bench.run(launch, cgroups=real_cgroups)
    assert (outcome.ending, outcome.signal) == (Ending.SIGNALLED, signal.SIGKILL)


def test_out_of_memory_by_watching(bench: Any) -> None:
    launch = bench.python(EAT, spec=needs(80 * MB))
    outcome = bench.run(launch, cgroups=NO_CGROUPS)
    assert (outcome.ending, outcome.memory_limit) == (Ending.OUT_OF_MEMORY, 80 * MB)


def test_watching_counts_the_whole_tree(bench: Any) -> None:
    code = f"import os\nos.fork(); os.fork()\n{EAT.replace('range(40)', 'range(4)')}"  # four times 40 MB
    assert bench.run(bench.python(code, spec=needs(100 * MB))).ending is Ending.OUT_OF_MEMORY


def test_watching_counts_shared_memory_once(bench: Any) -> None:
    assert bench.run(bench.python(SHARE, spec=needs(100 * MB))).ok


def test_without_a_limit_nobody_watches(bench: Any) -> None:
    assert bench.run(bench.python(SHARE)).ok


# --- which files would be written


def test_plan_of_version_1() -> None:
    plans = plan(Cgroups(cpu=Path("/c"), memory=Path("/m")), "w", 1.5, 7 * MB)
    assert [(p["dir"], p["controllers"], p["oom"]) for p in plans] == [
        ("/c/schedulearn/w", ["cpu"], None),
        ("/m/schedulearn/w", ["memory"], "/m/schedulearn/w/memory.oom_control"),
    ]
    assert ("write", "/c/schedulearn/w/cpu.cfs_quota_us", "150000") in plans[0]["steps"]
    assert ("write", "/m/schedulearn/w/memory.limit_in_bytes", "7000000") in plans[1]["steps"]


def test_controllers_that_share_a_hierarchy_share_a_group() -> None:
    (made,) = plan(Cgroups(cpu=Path("/c"), cpuacct=Path("/c")), "w", 1.5, None)
    assert made["controllers"] == ["cpu", "cpuacct"]
    assert [step[0] for step in made["steps"]] == ["mkdir", "write", "write"]


def test_a_worker_without_limits_has_groups_that_count() -> None:
    both = plan(Cgroups(cpu=Path("/c"), memory=Path("/m")), "w", None, None)
    assert [[step[0] for step in made["steps"]] for made in both] == [["mkdir"], ["mkdir"]]
    (unified,) = plan(Cgroups(unified=Path("/u")), "w", None, None)
    assert not any(path.endswith((".max", "pids.max")) for action, path, _ in unified["steps"] if action == "write")


def test_a_tiny_quota_is_one_that_the_kernel_takes() -> None:
    (made,) = plan(Cgroups(cpu=Path("/c")), "w", 0.001, None)
    assert made["steps"][-1][2] == "1000"


def unified_tree(folder: Path) -> Path:
    """A folder that looks like a version 2 hierarchy, as far as plain files can."""
    for place in (folder, folder / "schedulearn", folder / "schedulearn" / "w"):
        place.mkdir(exist_ok=True)
        for name in ("cgroup.subtree_control", "cgroup.procs", "cpu.max", "memory.max", "memory.events"):
            (place / name).touch()
    return folder


def test_version_2_is_set_up_from_the_top_down(tmp_path: Path) -> None:
    base = unified_tree(tmp_path / "u")
    groups = make_groups(plan(Cgroups(unified=base), "w", 0.25, 5 * MB))
    worker = base / "schedulearn" / "w"
    assert (base / "cgroup.subtree_control").read_text() == "+cpu +memory"
    assert (base / "schedulearn" / "cgroup.subtree_control").read_text() == "+cpu +memory"
    assert (worker / "cpu.max").read_text() == "25000 100000"
    assert (worker / "memory.max").read_text() == "5000000"
    assert controllers_of(enter_groups(groups, 4711)) == {"cpu", "memory"}
    assert (worker / "cgroup.procs").read_text() == "4711"
    assert not killed_for_memory(groups)
    (worker / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    assert killed_for_memory(groups)


def test_a_group_that_cannot_be_entered_holds_nothing(tmp_path: Path) -> None:
    base = unified_tree(tmp_path / "u")
    (base / "schedulearn" / "w" / "cgroup.procs").unlink()
    groups = make_groups(plan(Cgroups(unified=base), "w", 0.25, None))
    assert enter_groups(groups, 4711) == []


V1 = """
30 23 0:26 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct
31 23 0:27 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
32 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
""".lstrip()
V1_OWN = "4:memory:/docker/abc/inner\n1:cpu,cpuacct:/\n0::/\n"


def proc(folder: Path, mountinfo: str, own: str) -> Path:
    (folder / "mountinfo").write_text(mountinfo)
    (folder / "cgroup").write_text(own)
    return folder


def test_detect_version_1_below_the_own_group(tmp_path: Path) -> None:
    found = detect(proc(tmp_path, V1, V1_OWN), writable=lambda _: True)
    cpu = Path("/sys/fs/cgroup/cpu,cpuacct")
    assert found == Cgroups(cpu=cpu, cpuacct=cpu, memory=Path("/sys/fs/cgroup/memory/inner"))


def test_detect_only_what_may_be_written(tmp_path: Path) -> None:
    found = detect(proc(tmp_path, V1, V1_OWN), writable=lambda folder: "memory" not in str(folder))
    cpu = Path("/sys/fs/cgroup/cpu,cpuacct")
    assert found == Cgroups(cpu=cpu, cpuacct=cpu)


def test_detect_version_2(tmp_path: Path) -> None:
    base = unified_tree(tmp_path / "u")
    (base / "schedulearn" / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    mountinfo = f"30 23 0:26 / {base} rw - cgroup2 cgroup2 rw\n"
    found = detect(proc(tmp_path, mountinfo, "0::/schedulearn\n"), writable=lambda _: True)
    assert found == Cgroups(unified=base / "schedulearn")


def test_detect_nothing(tmp_path: Path) -> None:
    assert detect(tmp_path) == NO_CGROUPS
    assert detect(proc(tmp_path, V1, V1_OWN), writable=lambda _: False) == NO_CGROUPS


def test_a_worker_may_have_only_so_many_processes() -> None:
    plans = plan(Cgroups(pids=Path("/groups")), "1.1.0", None, None)
    assert plans[0]["steps"][-1] == ("write", "/groups/schedulearn/1.1.0/pids.max", str(MOST_PROCESSES))


# --- nobody gets away


def counting_group(bench: Any) -> Path:
    """The group that counts the processes of the one worker."""
    return next(group for group in bench.groups() if (group / "pids.max").exists())


def test_groups_are_closed_before_anybody_is_killed() -> None:
    """Else whoever forks faster than it is killed gets away."""
    ran = subprocess.run([sys.executable, "-c", KILL], capture_output=True, text=True, check=True, cwd="/")
    assert ran.stdout.split() == ["alive", "True", "over", "True"]


def test_what_else_is_in_its_groups_ends_with_it(bench: Any, real_cgroups: Cgroups) -> None:
    """Such as what was started beside it, and got away from whoever started it."""
    launch = bench.launch("until [ -e end ]; do sleep 0.02; done")
    bench.executor(cgroups=real_cgroups).start(launch)
    bench.started(launch)
    with subprocess.Popen(["sleep", "1000"]) as stray:
        try:
            (counting_group(bench) / "cgroup.procs").write_text(str(stray.pid))
            (bench.paths(launch).job.run / "end").touch()
            assert bench.ended(launch).ok
            assert stray.wait(DEADLINE) == -signal.SIGKILL
        finally:
            stray.kill()


def test_a_closed_group_takes_no_new_processes(bench: Any, real_cgroups: Cgroups) -> None:
    code = """
import os, time
while not os.path.exists('go'):
    time.sleep(0.01)
try:
    os.fork()
except OSError as error:
    print(error.errno == 11)
"""
    launch = bench.python(code)
    bench.executor(cgroups=real_cgroups).start(launch)
    bench.started(launch)
    counting_group(bench)
    close_groups(read_orders(bench.paths(launch))["groups"])
    (bench.paths(launch).job.run / "go").touch()
    assert bench.ended(launch).ok
    assert bench.output(launch) == b"True\n"
