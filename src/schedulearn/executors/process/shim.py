"""Runs one worker and outlives the service that started it: `python -I -S shim.py WORKER_DIR`, its key on stdin.

It claims the worker (so that it never runs twice), starts the command, keeps its output, stops it when asked, and
writes down how it ended, signed with its key. Standard library only and few imports: a worker should start at once.
Signals: SIGTERM stops the worker (stop.json says how long that may take), SIGTSTP suspends its tree, SIGCONT resumes.
"""
# ruff: noqa: PTH104
# (importing pathlib would double the time to start; and the package must be found first)

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
import time
from contextlib import suppress

if __name__ == "__main__":  # -I leaves out the script's folder, -S the installed packages
    sys.path.append(__file__.rsplit("/", 4)[0])

from schedulearn.executors.common.logwriter import LogWriter
from schedulearn.executors.common.signed import CLAIM, EXIT, KEY_SIZE, signed
from schedulearn.executors.kernel.procfs import (
    boot_id,
    descendants,
    proportional,
    read_text,
    resident,
    send,
    start_time,
    steady_time,
)
from schedulearn.executors.process.child import (
    NOT_DENIED,
    PR_SET_CHILD_SUBREAPER,
    NotStarted,
    become,
    end_with,
    prctl,
)
from schedulearn.executors.process.groups import (
    close_groups,
    controllers_of,
    enter_groups,
    killed_for_memory,
    make_groups,
    members_of,
    must_hold,
    remove_group,
)

TYPE_CHECKING = False  # importing typing would be slow, too
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, NoReturn

READY_FD = "SCHEDULEARN_READY_FD"  # names the pipe on which the service hears that the command runs
CLAIM_SIZE = 512  # claims are padded: one write replaces another whole
EXIT_SIZE = 4096  # reserved at the start, so that a full disk cannot keep the end from being written down
CHUNK = 1 << 18
MEMORY_INTERVAL = 0.2  # seconds between looks at the tree's memory
DRAIN_TIME = 5.0  # how long output is still read once all writers should be dead
KILL_TIME = 10.0
EXIT_TIME = 600.0  # how long writing exit.json is tried again


def take_claim(folder: str) -> int | None:
    """Become the one shim of this worker; None: another is, or was."""
    fd = os.open(f"{folder}/claim", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return None
    return None if os.fstat(fd).st_size else fd


def write_claim(fd: int, claim: dict[str, Any], key: bytes) -> None:
    os.pwrite(fd, json.dumps(signed(claim, CLAIM, key)).ljust(CLAIM_SIZE).encode(), 0)


class Supervisor:
    """One worker from its start to the record of its end."""

    def __init__(self, folder: str, claim_fd: int, ready_fd: int | None, key: bytes) -> None:
        self.folder, self.claim_fd, self.ready_fd, self.key = folder, claim_fd, ready_fd, key
        self.claim: dict[str, Any] = {"pid": os.getpid(), "start_time": start_time(os.getpid()), "boot_id": boot_id()}
        self.launch: dict[str, Any] = {}
        self.signals: set[int] = set()  # caught, not yet acted on
        self.child = 0
        self.status: int | None = None  # the main process's, once it ended
        self.childless = False
        self.kill_at: float | None = None  # set once a stop was asked
        self.oom = False
        self.watch_memory = False
        self.next_look = 0.0
        self.output = -1

    def run(self) -> None:
        self.wake = self._catch_signals()
        try:
            self.launch = json.loads(read_text(f"{self.folder}/launch.json"))
            self._reserve_exit()
            write_claim(self.claim_fd, self.claim, self.key)  # from here on this worker counts as started
            os.fsync(self.claim_fd)
        except (OSError, ValueError) as error:
            os.ftruncate(self.claim_fd, 0)
            number = error.errno if isinstance(error, OSError) else 0
            self._tell_service(f"errno {number} cannot use the worker's folder: {error}")
            return
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self.groups = make_groups(self.launch["groups"])
        self.log = LogWriter(f"{self.folder}/log", self.launch["log_cap"])
        problem: Exception | None = None
        try:
            self._spawn()
        except (NotStarted, OSError) as error:
            problem = error
        else:
            self._announce()
            self._supervise()
        self._finish(problem)

    def _catch_signals(self) -> int:
        def note(number: int, _frame: FrameType | None) -> None:
            self.signals.add(number)

        for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGTSTP, signal.SIGCONT):
            signal.signal(number, note)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTTOU, signal.SIGTTIN):
            signal.signal(number, signal.SIG_IGN)
        read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        return read_end

    # --- start

    def _spawn(self) -> None:
        self.output, output_end = os.pipe()
        _grow_pipe(self.output)
        go_read, go_write = os.pipe()
        problem_read, problem_write = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            os.close(go_write)
            self._become_worker(output_end, go_read, problem_write)
        for fd in (output_end, go_read, problem_write):
            os.close(fd)
        # Before it runs, so that it is known which session to look for if this shim is found dead.
        self.claim.update(child_pid=self.child, child_start_time=start_time(self.child))
        self._update_claim()
        held = self._enter_groups()
        if not must_hold(self.launch) <= held:
            os.close(go_write)
            raise NotStarted(NOT_DENIED)
        limit = self.launch["memory"]
        self.watch_memory = limit is not None and "memory" not in held
        os.write(go_write, b"-" if "cpu" in held else b"a")
        os.close(go_write)
        try:
            problem = self._hear(problem_read)
        finally:
            os.close(problem_read)
        if problem:
            raise NotStarted(problem.decode(errors="replace"))

    def _enter_groups(self) -> set[str]:
        """The controllers that now hold the command."""
        entered = enter_groups(self.groups, self.child)
        for plan in self.groups:
            if plan not in entered:
                remove_group(plan)
        self.groups = entered
        return controllers_of(entered)

    def _hear(self, pipe: int) -> bytes:
        """What keeps the command from running; nothing once it runs.

        Just before, it is its user's, and other jobs of the same user could stop it. It would not go on by itself.
        """
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        said = b""
        while True:
            if self._is_stopped() and not poll.poll(0):  # in this order: what is stopped says nothing more
                raise NotStarted("another process of its user stopped it before it ran")
            poll.register(self.wake, select.POLLIN)
            ready = {fd for fd, _ in poll.poll()}
            poll.unregister(self.wake)
            if self.wake in ready:
                _empty(self.wake)
            if pipe in ready:
                more = os.read(pipe, CHUNK)
                if not more:
                    return said
                said += more

    def _is_stopped(self) -> bool:
        try:
            return os.waitid(os.P_PID, self.child, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # it ran, and has ended
            return False

    def _become_worker(self, output: int, go: int, problem: int) -> NoReturn:
        """In the forked child: never returns."""
        try:
            os.close(self.claim_fd)  # the claim lives exactly as long as the shim
            os.setsid()
            end_with(self.claim["pid"])
            order = os.read(go, 1)
            if not order:
                os._exit(127)
            if order == b"a" and self.launch["cores"]:
                os.sched_setaffinity(0, self.launch["cores"])
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            become(self.launch, self.launch["argv"], self.claim["pid"])
        except BaseException as error:
            os.write(problem, (str(error) or repr(error)).encode(errors="replace"))
        finally:
            os._exit(127)

    def _announce(self) -> None:
        """The command runs: say so in the claim, and to the service if it still listens."""
        self.claim.update(started_at=time.time(), started_steady=steady_time())
        self._update_claim()
        self._tell_service("ok")

    def _update_claim(self) -> None:
        with suppress(OSError):  # the space is there already; a disk that fails even so must not stop the job
            write_claim(self.claim_fd, self.claim, self.key)

    def _tell_service(self, text: str) -> None:
        if self.ready_fd is not None:
            with suppress(OSError):
                os.write(self.ready_fd, text.encode())
            os.close(self.ready_fd)
            self.ready_fd = None

    # --- while it runs

    def _supervise(self) -> None:
        poll = select.poll()
        poll.register(self.wake, select.POLLIN)
        poll.register(self.output, select.POLLIN)
        self.signals.add(signal.SIGCHLD)  # it may have ended before we listened
        while not self._over():
            timeout = 0.0 if self.signals else self._patience()
            ready = {fd for fd, _ in poll.poll(None if timeout is None else timeout * 1000)}
            if self.wake in ready:
                _empty(self.wake)
            if self.output in ready and not self._pump():
                poll.unregister(self.output)
            self._act_on_signals()
            self._look_at_memory()

    def _over(self) -> bool:
        """The main process ended. During a stop the rest of the tree (a shell's child, say) keeps its grace."""
        if self.kill_at is not None and time.monotonic() >= self.kill_at:
            return True
        return self.status is not None and (self.kill_at is None or self.childless)

    def _patience(self) -> float | None:
        waits = []
        if self.kill_at is not None:
            waits.append(self.kill_at - time.monotonic())
        if self.watch_memory:
            waits.append(MEMORY_INTERVAL)
        return max(0.0, min(waits)) + 0.001 if waits else None

    def _act_on_signals(self) -> None:
        caught, self.signals = self.signals, set()
        if signal.SIGCHLD in caught:
            self._reap()
        if signal.SIGTERM in caught:
            self._begin_stop()
        elif signal.SIGTSTP in caught:
            self._suspend()
        elif signal.SIGCONT in caught:
            self._signal_tree(signal.SIGCONT)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.childless = True
                return
            if pid == 0:
                return
            if pid == self.child:
                self.status = status

    def _begin_stop(self) -> None:
        grace = float(self.launch["grace"])
        with suppress(OSError, ValueError, KeyError):  # a full disk may have kept it from being written
            grace = float(json.loads(read_text(f"{self.folder}/stop.json"))["grace"])
        kill_at = time.monotonic() + max(0.0, grace)
        first = self.kill_at is None
        self.kill_at = kill_at if self.kill_at is None else min(kill_at, self.kill_at)
        if first and grace > 0:
            self._signal_tree(signal.SIGTERM)
            self._signal_tree(signal.SIGCONT)  # a suspended process sees the first only when it goes on

    def _signal_tree(self, number: int) -> None:
        for pid in descendants(os.getpid()):
            send(pid, number)

    def _suspend(self) -> None:
        """Again until no new process is found: a process may fork while we walk."""
        seen: set[int] = set()
        while fresh := set(descendants(os.getpid())) - seen:
            for pid in fresh:
                send(pid, signal.SIGSTOP)
            seen |= fresh

    def _look_at_memory(self) -> None:
        if not self.watch_memory or time.monotonic() < self.next_look:
            return
        self.next_look = time.monotonic() + MEMORY_INTERVAL
        pids, limit = descendants(os.getpid()), self.launch["memory"]
        if sum(map(resident, pids)) > limit and sum(map(proportional, pids)) > limit:
            self.oom = True
            self._kill_tree()

    # --- output

    def _pump(self) -> bool:
        """Move one chunk; False: it was closed."""
        data = os.read(self.output, CHUNK)
        if data:
            self.log.write(data)
        return bool(data)

    def _drain(self) -> None:
        """All writers are dead, so the end comes at once, unless one of them hangs in the kernel."""
        deadline = time.monotonic() + DRAIN_TIME
        poll = select.poll()
        poll.register(self.output, select.POLLIN)
        while time.monotonic() < deadline:
            if poll.poll(100) and not self._pump():
                return

    # --- end

    def _kill_tree(self) -> None:
        """With what is left in its groups: a command beside it may have got away from its companion."""
        deadline = time.monotonic() + KILL_TIME
        pause = 0.001
        close_groups(self.groups)
        self._reap()
        while (left := members_of(self.groups)) or not self.childless:
            if time.monotonic() >= deadline:
                return
            for pid in left.union(descendants(os.getpid())):
                send(pid, signal.SIGKILL)
            time.sleep(pause)
            pause = min(0.05, pause * 2)
            self._reap()

    def _finish(self, problem: Exception | None) -> None:
        self._kill_tree()
        if self.status is not None:
            self.oom = self.oom or (self.status != 0 and killed_for_memory(self.groups))
        if not problem:
            self._drain()
        for plan in self.groups:
            remove_group(plan)
        self.log.close()
        self._write_exit(problem)
        self._tell_service("ended")

    def _reserve_exit(self) -> None:
        with open(f"{self.folder}/exit.tmp", "wb") as file:
            file.write(b" " * EXIT_SIZE)
            file.flush()
            os.fsync(file.fileno())

    def _write_exit(self, problem: Exception | None) -> None:
        code = os.waitstatus_to_exitcode(self.status) if self.status is not None else -signal.SIGKILL
        record = {
            "exit_code": code if code >= 0 and not problem else None,
            "signal": -code if code < 0 and not problem else None,
            "oom": self.oom,
            "memory_limit": self._memory_limit(),
            "boot_id": self.claim["boot_id"],
            "at": time.time(),
            "steady": steady_time(),
            "detail": "" if problem is None else str(problem),
            "stopped": self.kill_at is not None,
            "not_started": problem is not None,
            "errno": getattr(problem, "errno", None),  # of the system's own refusal, not of the command's
        }
        data = json.dumps(signed(record, EXIT, self.key)).encode()
        deadline = time.monotonic() + EXIT_TIME
        while not self._try_exit(data) and time.monotonic() < deadline:
            time.sleep(0.5)

    def _memory_limit(self) -> int | None:
        """The present one: it may have changed since the start."""
        with suppress(OSError, ValueError, KeyError):
            limit: int | None = json.loads(read_text(f"{self.folder}/control.json"))["memory"]
            return limit
        given: int | None = self.launch["memory"]
        return given

    def _try_exit(self, data: bytes) -> bool:
        temporary = f"{self.folder}/exit.tmp"
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                os.pwrite(fd, data, 0)
                os.ftruncate(fd, len(data))
                os.fsync(fd)
            finally:
                os.close(fd)
            os.rename(temporary, f"{self.folder}/exit.json")
        except FileNotFoundError:
            return True  # the job was forgotten
        except OSError:
            return False
        return True


def _grow_pipe(fd: int) -> None:
    """A larger pipe means fewer switches for a job that prints a lot; the system may refuse."""
    with suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 1 << 20)


def _empty(fd: int) -> None:
    with suppress(BlockingIOError):
        while os.read(fd, 4096):
            pass


def take_key() -> bytes:
    """Told on standard input, where no other process can look; then that is empty."""
    key = os.read(0, KEY_SIZE)
    os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)
    return key


def main(folder: str) -> int:
    os.chdir("/")  # hold no folder of the caller
    key = take_key()
    ready = os.environ.get(READY_FD)
    ready_fd = int(ready) if ready else None
    if ready_fd is not None:
        os.set_inheritable(ready_fd, False)
    claim_fd = take_claim(folder)
    if claim_fd is not None:
        Supervisor(folder, claim_fd, ready_fd, key).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
