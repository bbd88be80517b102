"""Start a shim and hear whether its command runs; signal a shim."""

import errno
import os
import resource
import select
import signal
import sys
from contextlib import suppress

from schedulearn.executors.common.keys import worker_key
from schedulearn.executors.common.paths import WorkerPaths
from schedulearn.executors.kernel.procfs import start_time
from schedulearn.executors.process import shim
from schedulearn.executors.process.claim import Claim

PATIENCE = 30.0  # seconds in which the command should run, on the busiest of machines
CHILD_END = 3  # where the shim finds its end of the pipe
# How many files a program may open unless it asks for more, as it was when the service began. The service raises it for
# itself; programs that use select() must not find themselves with descriptors that it cannot take.
_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
_WITH_FEWER = ["/bin/sh", "-c", 'ulimit -S -n "$0"; exec "$@"', str(_FILES)]


def spawn(paths: WorkerPaths) -> None:
    """Returns when the command runs, when it could not be started, or when PATIENCE is over; the files say which."""
    key = worker_key(paths.folder)
    read_end, write_end = os.pipe()
    try:
        try:
            pid = _spawn(paths, write_end, key)
        finally:
            os.close(write_end)
        poll = select.poll()  # select itself takes no descriptor above 1023
        poll.register(read_end, select.POLLIN)
        answered = bool(poll.poll(1000 * PATIENCE))
        message = os.read(read_end, 4096).decode(errors="replace") if answered else ""
    finally:
        os.close(read_end)
    if not answered or message == "ok":
        return
    _, status = os.waitpid(pid, 0)  # it has nothing more to do
    if message.startswith("errno "):
        _, number, words = message.split(" ", 2)
        raise OSError(int(number), words)
    if not message and status:
        raise ChildProcessError(errno.ECHILD, "the supervisor of the worker ended before it could begin")


def _spawn(paths: WorkerPaths, ready: int, key: bytes) -> int:
    """The key goes through a pipe: arguments, variables and files can be read by others of the same user."""
    told, telling = os.pipe()
    try:
        os.write(telling, key)
        return _spawn_with(paths, ready, told)
    finally:
        os.close(told)
        os.close(telling)


def _spawn_with(paths: WorkerPaths, ready: int, told: int) -> int:
    env = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    log_flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    words = [sys.executable, "-I", "-S", shim.__file__, str(paths.folder)]
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] != _FILES:
        words = _WITH_FEWER + words
    return os.posix_spawn(
        words[0],
        words,
        {**env, shim.READY_FD: str(CHILD_END)},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, told, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, str(paths.shim_log), log_flags, 0o600),
            (os.POSIX_SPAWN_DUP2, ready, CHILD_END),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=[signal.SIGTERM, signal.SIGTSTP, signal.SIGCONT, signal.SIGCHLD],
    )


def signal_shim(claim: Claim, number: signal.Signals) -> None:
    """Signal that very process, never one that got its pid later."""
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(claim.pid)
        try:
            if start_time(claim.pid) == claim.start_time:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
