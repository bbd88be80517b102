"""Start a shim and hear whether its command runs; signal a shim."""

import os
import select
import signal
import sys
from contextlib import suppress

from schedulearn.domain.errors import ExecutorError
from schedulearn.executors.common.paths import WorkerPaths
from schedulearn.executors.process import shim
from schedulearn.executors.process.claim import Claim
from schedulearn.executors.process.procfs import start_time

PATIENCE = 30.0  # seconds in which the command should run, on the busiest of machines
CHILD_END = 3  # where the shim finds its end of the pipe


def spawn(paths: WorkerPaths) -> None:
    """Returns when the command runs, when it could not be started, or when PATIENCE is over; the files say which."""
    read_end, write_end = os.pipe()
    try:
        try:
            pid = _spawn(paths, write_end)
        finally:
            os.close(write_end)
        answered = bool(select.select([read_end], [], [], PATIENCE)[0])
        message = os.read(read_end, 4096).decode(errors="replace") if answered else ""
    finally:
        os.close(read_end)
    if not answered or message == "ok":
        return
    os.waitpid(pid, 0)  # it has nothing more to do
    if message not in ("", "ended"):
        raise ExecutorError(message)


def _spawn(paths: WorkerPaths, ready: int) -> int:
    env = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    log_flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", shim.__file__, str(paths.folder)],
        {**env, shim.READY_FD: str(CHILD_END)},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
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
