"""Runs one command beside a worker: `python -I -S companion.py WORKER_DIR`, with a line of orders on standard input.

The command is one of the job's processes in all that counts: user, mounts, folder, environment, control groups. It
writes to this process's own output, and its exit code becomes this process's. It is killed, with all that it started,
when the other end of standard input is closed (so also when the service dies) or when the worker ends.
Standard library only and few imports: a command should start at once.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time

if __name__ == "__main__":  # -I leaves out the script's folder, -S the installed packages
    sys.path.append(__file__.rsplit("/", 4)[0])

from schedulearn.executors.kernel.procfs import descendants, read_text, send, start_time
from schedulearn.executors.process.child import (
    NOT_DENIED,
    PR_SET_CHILD_SUBREAPER,
    NotStarted,
    become,
    end_with,
    prctl,
)
from schedulearn.executors.process.groups import close_groups, controllers_of, enter_groups, must_hold, remove_group

TYPE_CHECKING = False  # importing typing would be slow
if TYPE_CHECKING:
    from typing import Any, NoReturn

KILL_TIME = 10.0  # seconds until a process that does not die is left alone
LOST = 125  # the exit code if it cannot be told how the command ended
_REFUSED = b"r"  # instead of the word to begin: the group that keeps it from the GPUs of others does not hold it


def main(folder: str) -> int:
    os.chdir("/")  # hold no folder of the caller
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # it ends when it is told to on standard input
    told = json.loads(_read_line())
    orders = json.loads(read_text(f"{folder}/launch.json"))
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    worker = _open(*told["worker"])
    if worker is None:
        return 128 + signal.SIGKILL
    namespace = _mounts_of(told["worker"][0]) if orders["view"] is not None else None
    if start_time(told["worker"][0]) != told["worker"][1]:
        return 128 + signal.SIGKILL  # it has ended: the mounts may be another's
    command = _spawn(orders, told["argv"], namespace, worker)
    handle = os.pidfd_open(command)
    poll = select.poll()
    for fd in (handle, worker, 0):
        poll.register(fd, select.POLLIN)
    poll.poll()
    if _over(worker):
        close_groups(orders["groups"])
    status = _kill_tree(command)
    if start_time(told["shim"][0]) != told["shim"][1]:
        for plan in orders["groups"]:  # the shim could not, while the command was in them
            remove_group(plan)
    return LOST if status is None else _as_a_shell_says(os.waitstatus_to_exitcode(status))


def _read_line() -> bytes:
    """Byte by byte would be slow, and reading ahead does no harm: nothing follows."""
    line = b""
    while not line.endswith(b"\n"):
        more = os.read(0, 1 << 16)
        if not more:
            os._exit(LOST)
        line += more
    return line


def _open(pid: int, started: int) -> int | None:
    """A handle on that very process; None if it has ended."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return None
    return handle if start_time(pid) == started else None


def _mounts_of(pid: int) -> int | None:
    """The mount namespace of a process; None if it has just ended."""
    try:
        return os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _over(process: int) -> bool:
    """Whether the process with this handle has ended."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(0))


def _spawn(orders: dict[str, Any], argv: list[str], namespace: int | None, worker: int) -> int:
    """It runs only if the worker still did once it was in the groups: from then on it is killed with them."""
    go_read, go_write = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.close(go_write)
        _become_command(orders, argv, parent, go_read, namespace)
    os.close(go_read)
    held = controllers_of(enter_groups(orders["groups"], pid))
    if not must_hold(orders) <= held:
        os.write(go_write, _REFUSED)
    elif not _over(worker):
        os.write(go_write, b"-" if "cpu" in held else b"a")
    os.close(go_write)
    return pid


def _become_command(orders: dict[str, Any], argv: list[str], parent: int, go: int, namespace: int | None) -> NoReturn:
    """In the forked child: never returns."""
    code = NotStarted.code
    try:
        os.setsid()
        end_with(parent)
        order = os.read(go, 1)
        if not order:
            os._exit(128 + signal.SIGKILL)
        if order == _REFUSED:
            raise NotStarted(NOT_DENIED)
        if order == b"a" and orders["cores"]:
            os.sched_setaffinity(0, orders["cores"])
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        become(orders, argv, parent, namespace)
    except NotStarted as problem:
        code = problem.code
        os.write(2, f"schedulearn: {problem}\n".encode(errors="replace"))
    finally:
        os._exit(code)


def _kill_tree(command: int) -> int | None:
    """None gets away: orphans come back to this process. The status of the command itself, if it did end."""
    deadline, pause = time.monotonic() + KILL_TIME, 0.001
    status: int | None = None
    while time.monotonic() < deadline:
        try:
            pid, ended = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == command:
            status = ended
        if pid == 0:
            for each in descendants(os.getpid()):
                send(each, signal.SIGKILL)
            time.sleep(pause)
            pause = min(0.05, pause * 2)
    return status


def _as_a_shell_says(code: int) -> int:
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
