"""What runs a worker: the claim file that its shim writes, and keeps locked for as long as it lives."""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedulearn.executors.common.keys import genuine, worker_key
from schedulearn.executors.common.paths import JobPaths, read_small
from schedulearn.executors.common.signed import CLAIM, signed


@dataclass(frozen=True, slots=True)
class Claim:
    """What a shim wrote of itself. Empty values: it did not come so far, or the file is damaged."""

    pid: int = 0  # the shim
    start_time: int = 0  # tells it from a later process with the same pid
    boot_id: str = ""
    child_pid: int = 0  # the command
    child_start_time: int = 0
    started_at: float | None = None  # when the command ran, by a clock that may have been set since
    started_steady: float | None = None  # the same since the boot of the machine
    void: bool = False  # no shim ran it, and now none may


def read_claim(path: Path) -> Claim | None:
    """None: the worker is not claimed. What no shim of ours has written counts as damaged."""
    for _ in range(5):
        try:
            text = read_small(path)
        except FileNotFoundError:
            return None
        except ValueError:
            return Claim()
        if not text:
            return None
        try:
            return _parse(json.loads(text), path.parent)
        except (ValueError, RecursionError):
            time.sleep(0.01)  # perhaps it is just being written
    return Claim()


def _parse(data: Any, folder: Path) -> Claim:
    if not isinstance(data, dict) or not genuine(data, CLAIM, folder):
        return Claim()
    known = {name: data[name] for name in Claim.__slots__ if data.get(name) is not None}
    return Claim(**known)


def is_held(path: Path) -> bool:
    """Whether the shim lives. Ask only of a claim that is written: asking takes the lock for an instant."""
    try:
        with _try_lock(path, os.O_RDWR) as handle:
            return handle is None
    except FileNotFoundError:
        return False


def runs(job: JobPaths) -> bool:
    """Whether a shim of any of its attempts lives."""
    return any(read_claim(claim) and is_held(claim) for claim in job.attempts.glob("*/*/claim"))


def void(path: Path) -> bool:
    """Make sure that a worker which is not claimed never runs. False: it is claimed."""
    with _try_lock(path, os.O_RDWR | os.O_CREAT) as handle:
        if handle is None or os.fstat(handle).st_size:
            return False
        os.write(handle, json.dumps(signed({"void": True}, CLAIM, worker_key(path.parent))).encode())
        os.fsync(handle)
        return True


@contextmanager
def _try_lock(path: Path, flags: int) -> Iterator[int | None]:
    handle = os.open(path, flags, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield handle
    finally:
        os.close(handle)
