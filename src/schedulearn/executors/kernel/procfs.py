"""What /proc knows of processes. Part of the shim: standard library only, few imports."""
# ruff: noqa: PTH110, PTH208
# (part of the shim: importing pathlib would double its time to start)

import os
import signal
import time
from contextlib import suppress

PAGE = os.sysconf("SC_PAGE_SIZE")


def read_text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def steady_time() -> float:
    """Seconds since this machine began. This clock is never set; it goes on while a laptop sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    return read_text("/proc/sys/kernel/random/boot_id").strip()


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on: [0] state, [1] parent, [3] session, [19] start time."""
    return read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()


def start_time(pid: int) -> int | None:
    """With the pid this names one process for the whole life of the machine. None: there is no such process."""
    try:
        return int(stat_fields(pid)[19])
    except (OSError, IndexError):
        return None


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _children(pid: int) -> list[int]:
    kids: list[int] = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        kids += map(int, read_text(f"/proc/{pid}/task/{thread}/children").split())
    return kids


def _children_by_scan(pid: int) -> list[int]:
    """For kernels that do not list children: look at every process."""
    kids = []
    for other in all_pids():
        try:
            if int(stat_fields(other)[1]) == pid:
                kids.append(other)
        except (OSError, IndexError):
            continue
    return kids


HAS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def descendants(pid: int) -> list[int]:
    """Every process below `pid`. None gets away: orphans come back to the shim, which is their subreaper."""
    found: list[int] = []
    queue = [pid]
    while queue:
        parent = queue.pop()
        try:
            kids = _children(parent) if HAS_CHILDREN else _children_by_scan(parent)
        except OSError:
            continue  # it has ended meanwhile
        found += kids
        queue += kids
    return found


def stands_still(pid: int) -> bool:
    """Whether every process below `pid` is stopped, or over. Not asked of those that became another user (setuid)."""
    below = descendants(pid)
    for each in below:
        try:
            os.kill(each, 0)
            if not _is_stopped(each):
                return False
        except (OSError, IndexError):
            continue  # it has ended meanwhile, or is out of our reach
    return set(descendants(pid)) <= set(below)  # none of them has forked before it was stopped


def _is_stopped(pid: int) -> bool:
    state = stat_fields(pid)[0]
    if state != "D":
        return state in "TtZX"
    # In the kernel, perhaps for good: who forks with vfork waits there for a child that was stopped before it could
    # exec. The pending SIGSTOP is the first thing that it will see when it leaves.
    pending = [line.split()[1] for line in read_text(f"/proc/{pid}/status").splitlines() if line.startswith("ShdPnd:")]
    return bool(pending) and bool(int(pending[0], 16) >> (signal.SIGSTOP - 1) & 1)


def send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # it has ended, or it became another user (setuid)
        os.kill(pid, number)


def resident(pid: int) -> int:
    try:
        return int(read_text(f"/proc/{pid}/statm").split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def proportional(pid: int) -> int:
    """Memory with shared pages divided among their users. Slower than `resident`, but forked workers share much."""
    try:
        for line in read_text(f"/proc/{pid}/smaps_rollup").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resident(pid)
