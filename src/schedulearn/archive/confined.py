"""Starts the child that checks and unpacks archives, feeds it, and ends it when it takes too long."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from schedulearn.archive import child
from schedulearn.archive.extract import OPEN_FOLDER
from schedulearn.archive.reader import Refused

Owner = tuple[int, int] | None  # uid, gid; None: the service's own
NOBODY = (child.NOBODY, child.NOBODY)
MOST_SNAPSHOT_FILES = 200_000
MOST_FETCHED_FILES = 2_000_000
MOST_FETCHED = 1 << 40  # bytes that are fetched of one container's folder, whatever its disk has
_MEMORY = 512 << 20
_CHECK_SECONDS, _UNPACK_SECONDS = 60, 600
_STALL = 300.0  # seconds in which the child takes no more of what it is fed
_FETCH_CPU = 6 * 3600  # seconds: a terabyte takes its time
_MOST_ANSWER = 1 << 16
_CHUNK = 1 << 16


def check(archive: Path, most_bytes: int) -> None:
    """BadArchive unless this snapshot can be unpacked, and stays inside of its folder."""
    owner = NOBODY if os.geteuid() == 0 else None  # it reads what is opened for it, and writes nothing
    orders = _orders(owner, most_bytes, MOST_SNAPSHOT_FILES, _CHECK_SECONDS)
    orders["RLIMIT_FSIZE"] = 0
    with open(archive, "rb") as source, _started(child.CHECK, orders, source) as process:
        _answer(process, _CHECK_SECONDS)


def give_empty(folder: Path, owner: Owner) -> None:
    """Make a folder the owner's that is empty, and lies where the owner cannot change names."""
    with _opened(folder, owner):
        pass


def unpack_snapshot(archive: Path, folder: Path, owner: Owner, most_bytes: int) -> None:
    """Fill an empty folder, as the user who will own it, in a folder that only the service may enter."""
    orders = _orders(owner, most_bytes, MOST_SNAPSHOT_FILES, _UNPACK_SECONDS)
    with (
        open(archive, "rb") as source,
        _opened(folder, owner) as opened,
        _started(child.SNAPSHOT, orders | {"folder": opened}, source) as process,
    ):
        _answer(process, _UNPACK_SECONDS)


def unpack_fetched(
    chunks: Iterable[bytes], folder: Path, owner: Owner, most_bytes: int = MOST_FETCHED, reader: Owner = None
) -> float:
    """Fill an empty folder, in the same way, with what an engine sends of one; the newest time of change in it.

    `reader`: only what this user could read there, by its owner and its mode.
    """
    orders = _orders(owner, most_bytes, MOST_FETCHED_FILES, _FETCH_CPU)
    if reader:
        orders |= {"reader_uid": reader[0], "reader_gid": reader[1]}
    with (
        _opened(folder, owner) as opened,
        _started(child.FETCHED, orders | {"folder": opened}, subprocess.PIPE) as process,
    ):
        assert process.stdin
        _feed(process.stdin, chunks)
        return _answer(process, _STALL)


def _orders(owner: Owner, most_bytes: int, most_members: int, seconds: int) -> dict[str, int]:
    limits = {
        "RLIMIT_CPU": seconds,
        "RLIMIT_AS": _MEMORY,
        "RLIMIT_FSIZE": most_bytes,
        "RLIMIT_NOFILE": 64,
        "RLIMIT_CORE": 0,
        "RLIMIT_NPROC": 0,
    }
    identity = {"uid": owner[0], "gid": owner[1]} if owner else {}
    return {**identity, **limits, "most_bytes": most_bytes, "most_members": most_members}


@contextmanager
def _opened(folder: Path, owner: Owner) -> Iterator[int]:
    """A folder, opened, and given to its future owner, who has nothing in it yet and cannot reach it."""
    opened = os.open(folder, OPEN_FOLDER)
    try:
        if owner:
            os.fchown(opened, *owner)
        yield opened
    finally:
        os.close(opened)


@contextmanager
def _started(task: str, orders: dict[str, int], source: IO[bytes] | int) -> Iterator[subprocess.Popen[bytes]]:
    """The child, which is ended at the end."""
    words = [task, *(f"{name}={number}" for name, number in orders.items())]
    env = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-X", "utf8", child.__file__, *words],
        stdin=source,
        stdout=subprocess.PIPE,
        env=env,
        pass_fds=[orders["folder"]] if "folder" in orders else (),
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()  # nothing happens if it has ended and was waited for


def _feed(pipe: IO[bytes], chunks: Iterable[bytes]) -> None:
    """Until the child has enough: what it says then tells whether that was all."""
    handle = pipe.fileno()
    os.set_blocking(handle, False)
    try:
        for chunk in chunks:
            _write(handle, memoryview(chunk))
    except BrokenPipeError:
        pass
    pipe.close()


def _write(handle: int, data: memoryview) -> None:
    while data:
        if not _ready(handle, select.POLLOUT, _STALL):
            raise Refused("it takes too long to unpack")
        try:
            data = data[os.write(handle, data[:_CHUNK]) :]
        except BlockingIOError:
            continue


def _ready(handle: int, event: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(handle, event)
    return bool(poll.poll(max(0.0, seconds) * 1000))


def _answer(process: subprocess.Popen[bytes], seconds: float) -> float:
    """What the child says; raises what it met."""
    assert process.stdout
    said, deadline = b"", time.monotonic() + seconds
    while len(said) < _MOST_ANSWER:
        if not _ready(process.stdout.fileno(), select.POLLIN, deadline - time.monotonic()):
            raise Refused("it takes too long to read")
        piece = os.read(process.stdout.fileno(), _MOST_ANSWER)
        if not piece:
            break
        said += piece
    return _understood(said)


def _understood(said: bytes) -> float:
    kind, _, detail = said.decode("utf-8", "replace").partition(" ")
    if kind == "newest":
        return float(detail)
    if kind == "errno":
        number, _, words = detail.partition(" ")
        raise OSError(int(number), words)
    if kind in child.PROBLEMS:
        raise child.PROBLEMS[kind](detail)
    raise Refused("it takes too long, or too much memory, to read")  # it was ended by a limit of its own, most likely
