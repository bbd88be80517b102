"""The service and what can break around it. A fault has a way in and, if it passes, a way out; neither waits long."""

import os
import shutil
import signal
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from support.crash import left_behind
from support.outside.plan import Fault, Plan
from support.outside.users import Known
from support.service import Service, job_processes
from support.waiting import wait_until

_DISK = 48 << 20  # bytes of the small disk on which the data folder is
_DOWN = 1.0  # seconds for which nobody starts the service again: starting takes long enough


class World:
    """On a folder of its own, with plain processes and SQLite. Those whose workers are killed have it noted down."""

    def __init__(self, root: Path, plan: Plan) -> None:
        self.plan = plan
        self.disk = root / "disk"
        self.diaries = root / "diaries"
        self.diaries.mkdir()
        self.diaries.chmod(0o777)
        self.disk.mkdir()
        self.small = plan.variant == "process" and _mounted(self.disk)
        self.data = self.disk / "data"
        self.service = Service(self.data, *self._options())
        self.service.log = root / "service.log"
        self.counted: Counter[str] = Counter()  # what was really done
        self._closing = False
        self._undo: list[tuple[float, Callable[[], None]]] = []

    @property
    def database(self) -> str:
        """For `open_store`."""
        return str(self.data / "schedulearn.db")

    def _options(self) -> list[str]:
        return []

    def open(self) -> None:
        self.service.start()

    def inflict(self, fault: Fault, known: Sequence[Known]) -> bool:
        """To the first of these jobs that has what is to break; False if none has."""
        do = getattr(self, "_" + fault.what.replace(" ", "_"))
        undo = next((undo for one in known if (undo := do(one))), None)
        if undo is None:
            return False
        self.counted[fault.what] += 1
        if undo is not passes:
            down = min(fault.seconds, _DOWN) if undo == self._revive else fault.seconds
            self._undo.append((fault.at + down, undo))
        return True

    def mend(self, now: float = float("inf")) -> None:
        """Whatever is over by now."""
        due = sorted((one for one in self._undo if one[0] <= now), key=lambda one: one[0])
        self._undo = [one for one in self._undo if one[0] > now]
        for _, undo in due:
            undo()
        if not (self.service.running or self._ended() or self._closing):
            self.service.launch()  # it could not start while something was broken: it is started again, as by systemd

    def left(self) -> list[str]:
        """What is still there of jobs that are all over. The service ends with it."""
        with suppress(AssertionError):  # supervisors end a moment after they have said so; what stays is a problem
            wait_until(lambda: not job_processes(self.data), 20.0)
        self.service.stop()
        return left_behind(self.data, self.database)

    def close(self) -> None:
        self._closing = True
        self.mend()
        self.service.clean_up()
        if self.small:
            subprocess.run(["umount", "-l", str(self.disk)], check=True)

    # The service

    def _kill_service(self, _: Known) -> Callable[[], None] | None:
        return self._end_service(signal.SIGKILL)

    def _stop_service(self, _: Known) -> Callable[[], None] | None:
        return self._end_service(signal.SIGTERM)

    def _end_service(self, number: signal.Signals) -> Callable[[], None] | None:
        if not self.service.running or self._ended():
            return None
        os.kill(self.service.pid, number)
        return self._revive

    def _ended(self) -> bool:
        """Whether one of our faults keeps it down."""
        return any(undo == self._revive for _, undo in self._undo)

    def _revive(self) -> None:
        if self.service.running:
            self.service.kill()  # it was still stopping, or frozen
        self.service.launch()

    def _freeze_service(self, _: Known) -> Callable[[], None] | None:
        return _frozen([self.service.pid]) if self.service.running else None

    # Workers that are processes

    def _kill_supervisor(self, known: Known) -> Callable[[], None] | None:
        return self._hit(known, self._supervisors)

    def _kill_program(self, known: Known) -> Callable[[], None] | None:
        return self._hit(known, self._programs)

    def _kill_group(self, known: Known) -> Callable[[], None] | None:
        return self._hit(known, lambda job: job_processes(self.data, f"{job}."))

    def _freeze_supervisor(self, known: Known) -> Callable[[], None] | None:
        return _frozen(self._supervisors(known.id)) if known.id else None

    def _freeze_program(self, known: Known) -> Callable[[], None] | None:
        return _frozen(self._programs(known.id)) if known.id else None

    def _hit(self, known: Known, whom: Callable[[int], list[int]]) -> Callable[[], None] | None:
        pids = whom(known.id) if known.id else []
        known.hits += bool(pids)
        return passes if _signalled(pids, signal.SIGKILL) else None

    def _supervisors(self, job: int) -> list[int]:
        return [pid for pid in job_processes(self.data, f"{job}.") if _is_supervisor(pid)]

    def _programs(self, job: int) -> list[int]:
        return [pid for pid in job_processes(self.data, f"{job}.") if not _is_supervisor(pid)]

    # What it stands on

    def _lock_database(self, _: Known) -> Callable[[], None] | None:
        holder = sqlite3.connect(self.database, timeout=1.0, isolation_level=None, check_same_thread=False)
        try:
            holder.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            holder.close()
            return None
        return holder.close

    def _fill_disk(self, _: Known) -> Callable[[], None] | None:
        if not self.small or (self.disk / "filler").exists():
            return None
        with suppress(OSError), open(self.disk / "filler", "wb", buffering=0) as filler:
            while True:
                filler.write(bytes(1 << 16))
        return (self.disk / "filler").unlink


def passes() -> None:
    """For what is not mended: it is over at once."""


def _frozen(pids: list[int]) -> Callable[[], None] | None:
    stopped = _signalled(pids, signal.SIGSTOP)
    return (lambda: _signalled(stopped, signal.SIGCONT) and None) if stopped else None


def _signalled(pids: list[int], number: signal.Signals) -> list[int]:
    """Those that were still there."""
    reached = []
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            reached.append(pid)
    return reached


def _is_supervisor(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return len(words) > 3 and words[3].endswith(b"shim.py")


def _mounted(folder: Path) -> bool:
    words = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "tmpfs", str(folder)]
    return shutil.which("mount") is not None and subprocess.run(words, capture_output=True).returncode == 0
