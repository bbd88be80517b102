"""Where a job and its workers keep their files, and how files are written so that a crash leaves no half of one."""

import errno
import fcntl
import json
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedulearn.core.domain.ids import JobId, WorkerId

LARGEST_LAUNCH = 16 << 20  # bytes of launch.json: it holds a job's whole command and environment
SPOOL = "spool.jsonl"  # in the folder of a worker


class _Named:
    """A file or folder of this name, in the folder of a job or of a worker."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, owner: "JobPaths | WorkerPaths", _: object) -> Path:
        return owner.folder / self._name


@dataclass(frozen=True, slots=True)
class JobPaths:
    """The folder of one job."""

    folder: Path

    run = _Named("run")
    checkpoint = _Named("checkpoint")
    attempts = _Named("attempts")
    lock = _Named("prepare.lock")  # held while the run or the checkpoint folder is filled or replaced
    fence = _Named("fence.json")  # the newest attempt that began: no older one may change the job's folders
    fetched = _Named("fetched.json")  # when the checkpoint of a container was last brought here

    @classmethod
    def of(cls, root: Path, job: JobId) -> "JobPaths":
        return cls(root / "jobs" / str(job))

    @property
    def root(self) -> Path:
        """The folder around all jobs."""
        return self.folder.parent.parent


@dataclass(frozen=True, slots=True)
class WorkerPaths:
    """The folder of one worker."""

    job: JobPaths
    folder: Path

    # What the shim is told: command, environment, limits; of a container, what must be known at its end.
    launch = _Named("launch.json")
    started = _Named("started.json")  # when its container was started, by the service's own clock
    anchors = _Named("anchors")  # which moments of a container's output lie where in `log`
    claim = _Named("claim")  # written and locked by the one shim that runs this worker
    token = _Named("token")
    control = _Named("control.json")  # the present limits, for the job to read
    hosts = _Named("hosts")  # the script that Horovod asks where its processes may run
    spool = _Named(SPOOL)  # what the job reported while the service was away
    ack = _Named("ack.json")  # how many threads the job has, as it says itself
    stop = _Named("stop.json")  # how long a stop may take; read by the shim on SIGTERM
    exit = _Named("exit.json")  # how the worker ended; written once
    log = _Named("log")
    shim_log = _Named("shim.log")  # what the shim itself had to complain about: normally empty
    lock = _Named("prepare.lock")  # held while the worker is being started, so that two starters do not both prepare it

    @classmethod
    def of(cls, root: Path, worker: WorkerId) -> "WorkerPaths":
        job = JobPaths.of(root, worker.job)
        return cls(job, job.attempts / str(worker.attempt) / str(worker.rank))

    @property
    def first(self) -> "WorkerPaths":
        """Those of worker 0 of the same attempt."""
        return WorkerPaths(self.job, self.folder.with_name("0"))


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


def read_number(path: Path, name: str) -> float | None:
    """What a JSON object says under this name; None: nothing, or it cannot be read."""
    try:
        return float(read_json(path)[name])
    except (OSError, ValueError, KeyError, TypeError):
        return None


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


def make_once(path: Path, data: bytes) -> bytes:
    """What the file has; it is made with this content, for the service alone, if it is not there."""
    with suppress(FileNotFoundError):
        return path.read_bytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another one was faster
            path.hardlink_to(name)
    finally:
        Path(name).unlink()
    return path.read_bytes()


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
