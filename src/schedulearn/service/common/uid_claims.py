"""Which services of this machine give out which uids: jobs of two that give out the same could reach each other."""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FOLDER = Path("/run/schedulearn/uids")


@contextmanager
def claimed(first: int, last: int, data: Path, folder: Path = _FOLDER) -> Iterator[list[str]]:
    """Say that the service with this data folder gives out these uids; yields what is wrong with that, in words.

    The claim is a lock, so it ends with this process however that ends.
    """
    mine = folder / f"{first}-{last}.{hashlib.sha256(str(data.absolute()).encode()).hexdigest()[:12]}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(mine, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:  # no such folder here: then it cannot be told
        yield []
        return
    try:
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(data.absolute()).encode(), 0)
        yield [
            f"The service of {other} on this machine gives out the same uids: jobs of the two could read and stop each"
            " other. Start one of them with other --uids."
            for other in _others(folder, mine, first, last)
        ]
    finally:
        os.close(handle)


def _others(folder: Path, mine: Path, first: int, last: int) -> Iterator[str]:
    for file in sorted(folder.iterdir()):
        with suppress(OSError, ValueError):
            begin, end = map(int, file.name.partition(".")[0].split("-"))
            if file != mine and begin <= last and end >= first and _is_held(file):
                yield file.read_text()


def _is_held(file: Path) -> bool:
    with open(file, "rb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
