"""Where a job and its workers keep their files, and how files are written so that a crash leaves no half of one."""

import errno
import fcntl
import json
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedulearn.core.domain.ids import JobId, WorkerId

LARGEST_LAUNCH = 16 << 20  # bytes of launch.json: it holds a job's whole command and environment
SPOOL = "spool.jsonl"  # in the folder of a worker


@dataclass(frozen=True, slots=True)
class JobPaths:
    """The folder of one job."""

    folder: Path

    @classmethod
    def of(cls, root: Path, job: JobId) -> "JobPaths":
        return cls(root / "jobs" / str(job))

    @property
    def root(self) -> Path:
        """The folder around all jobs."""
        return self.folder.parent.parent

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def attempts(self) -> Path:
        return self.folder / "attempts"

    @property
    def lock(self) -> Path:
        """Held while the run or the checkpoint folder is filled or replaced."""
        return self.folder / "prepare.lock"

    @property
    def fence(self) -> Path:
        """The number of the newest attempt that began: no older one may change the job's folders."""
        return self.folder / "fence.json"

    @property
    def fetched(self) -> Path:
        """When the checkpoint of a container was last brought here."""
        return self.folder / "fetched.json"


@dataclass(frozen=True, slots=True)
class WorkerPaths:
    """The folder of one worker."""

    job: JobPaths
    folder: Path

    @classmethod
    def of(cls, root: Path, worker: WorkerId) -> "WorkerPaths":
        job = JobPaths.of(root, worker.job)
        return cls(job, job.attempts / str(worker.attempt) / str(worker.rank))

    @property
    def first(self) -> "WorkerPaths":
        """Those of worker 0 of the same attempt."""
        return WorkerPaths(self.job, self.folder.with_name("0"))

    @property
    def launch(self) -> Path:
        """What the shim is told: command, environment, limits; of a container, what must be known at its end."""
        return self.folder / "launch.json"

    @property
    def started(self) -> Path:
        """When its container was started, by the service's own clock."""
        return self.folder / "started.json"

    @property
    def anchors(self) -> Path:
        """Which moments of a container's output lie where in `log`."""
        return self.folder / "anchors"

    @property
    def claim(self) -> Path:
        """Written and locked by the one shim that runs this worker."""
        return self.folder / "claim"

    @property
    def token(self) -> Path:
        return self.folder / "token"

    @property
    def control(self) -> Path:
        """The present limits, for the job to read."""
        return self.folder / "control.json"

    @property
    def hosts(self) -> Path:
        """The script that Horovod asks where its processes may run."""
        return self.folder / "hosts"

    @property
    def spool(self) -> Path:
        """What the job reported while the service was away."""
        return self.folder / SPOOL

    @property
    def ack(self) -> Path:
        """How many threads the job has, as it says itself."""
        return self.folder / "ack.json"

    @property
    def stop(self) -> Path:
        """How long a stop may take; read by the shim on SIGTERM."""
        return self.folder / "stop.json"

    @property
    def exit(self) -> Path:
        """How the worker ended; written once by the shim."""
        return self.folder / "exit.json"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def shim_log(self) -> Path:
        """What the shim itself had to complain about: normally empty."""
        return self.folder / "shim.log"

    @property
    def lock(self) -> Path:
        """Held while the worker is being started, so that two starters do not both prepare it."""
        return self.folder / "prepare.lock"


def read_small(path: Path, largest: int = 1 << 20) -> bytes:
    """A file that a job may have replaced: no link is followed, no pipe waited for.

    ValueError if it is no plain file, or too large; FileNotFoundError if there is none.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, a socket
            raise ValueError(f"{path} is no plain file") from error
        raise
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode) or info.st_size > largest:
            raise ValueError(f"{path} is no plain file, or too large")
        return os.read(handle, info.st_size)
    finally:
        os.close(handle)


def read_json(path: Path, largest: int = 1 << 20) -> dict[str, Any]:
    """The same for a JSON object; ValueError also if it is none."""
    try:
        value = json.loads(read_small(path, largest))
    except RecursionError as error:
        raise ValueError(f"{path} is nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path} holds no object")
    return value


def read_orders(paths: WorkerPaths) -> dict[str, Any]:
    """What was written down for a worker when it was started; {} if it was not, or cannot be read."""
    try:
        return read_json(paths.launch, LARGEST_LAUNCH)
    except (OSError, ValueError):
        return {}


def write_file(path: Path, data: bytes, mode: int = 0o644, owner: tuple[int, int] | None = None) -> None:
    """Replace a file whole: readers see the old content or the new one, even after a crash."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            if owner:
                os.fchown(file.fileno(), *owner)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Mapping[str, object], mode: int = 0o644) -> None:
    write_file(path, json.dumps(value).encode(), mode)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock that dies with its holder."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
