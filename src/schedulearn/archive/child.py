"""Checks or unpacks one archive, confined, and says in a line how that went: `python -I -S child.py TASK KEY=NUMBER…`.

The archive is standard input, the folder to fill an open descriptor. Before the first byte is read, this process takes
on the user whose files they will be, and limits that it cannot lift: on memory, time, and the size of a file.
"""

from __future__ import annotations

import errno
import os
import resource
import sys

if __name__ == "__main__":  # -I leaves out the script's folder, -S the installed packages
    sys.path.append(__file__.rsplit("/", 3)[0])

from schedulearn.archive.extract import Extractor, Room, free_bytes
from schedulearn.archive.gunzip import Gunzip
from schedulearn.archive.reader import (
    FOLDER,
    HARD_LINK,
    SPECIAL,
    BadArchive,
    Damaged,
    Reader,
    Refused,
    TooLarge,
    inside,
    sized,
)
from schedulearn.archive.rules import Members, Readable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from schedulearn.archive.reader import Member, Source

CHECK, SNAPSHOT, FETCHED = "check", "snapshot", "fetched"  # what can be asked for
PROBLEMS = {kind.__name__: kind for kind in (Damaged, Refused, TooLarge)}
LIMITS = ("RLIMIT_CPU", "RLIMIT_AS", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_CORE", "RLIMIT_NPROC")
NOBODY = 65534
_NICE = 5  # requests for a page wait less
_BUFFER = 1 << 18


def main(task: str, orders: dict[str, int]) -> str:
    """What came of it: `newest SECONDS`, `errno NUMBER WORDS`, or the name of a problem and what it is."""
    try:
        _confine(orders)
        with open(0, "rb", buffering=_BUFFER, closefd=False) as source:
            return f"newest {_TASKS[task](orders, source)!r}"
    except BadArchive as problem:
        return f"{type(problem).__name__} {problem}"
    except OSError as error:
        return f"errno {error.errno} {error.strerror}"
    except MemoryError:
        return f"{Refused.__name__} it takes too much memory to read"
    except Exception as error:  # none is known; but the one that waits must hear of it
        return f"{Damaged.__name__} it cannot be read ({type(error).__name__})"


def _confine(orders: dict[str, int]) -> None:
    os.umask(0o077)
    os.nice(_NICE)
    if "uid" in orders:
        os.setgroups([])
        os.setresgid(orders["gid"], orders["gid"], orders["gid"])
        # Files are made by the second. Signals are taken from the first and the third: a job of the same user would
        # stop this process, and what waits for it.
        os.setresuid(NOBODY, orders["uid"], NOBODY)
    for name in LIMITS:
        kind = getattr(resource, name)
        most = resource.getrlimit(kind)[1]
        value = orders[name] if most == resource.RLIM_INFINITY else min(orders[name], most)
        resource.setrlimit(kind, (value, value))


def _check(orders: dict[str, int], source: Source) -> float:
    """Whether a snapshot can be unpacked; nothing is."""
    reader, members = _snapshot_reader(orders, source), Members()
    for member in reader:
        members.check(member)
    members.finish()
    reader.drain()
    return 0.0


def _unpack_snapshot(orders: dict[str, int], source: Source) -> float:
    """A project, as its user packed it."""
    reader, members = _snapshot_reader(orders, source), Members()
    with Extractor(orders["folder"], Room(orders["folder"])) as extractor:
        for member in reader:
            parts = members.check(member)
            target = inside(member.target) if member.kind is HARD_LINK else ()
            extractor.add(member, parts, target, _mode(member, 0o755), reader.read)
        members.finish()
    return 0.0


def _unpack_fetched(orders: dict[str, int], source: Source) -> float:
    """What an engine sent of a container: one folder, whose own name is left out; the newest time of change in it.

    Links may lead anywhere: they are never followed on this side.
    """
    newest = 0.0
    folder = orders["folder"]
    disk = os.fstatvfs(folder)
    reader = Reader(source, min(orders["most_bytes"], disk.f_blocks * disk.f_frsize), orders["most_members"])
    readable = Readable(orders["reader_uid"], orders["reader_gid"]) if "reader_uid" in orders else None
    with Extractor(folder, Room(folder)) as extractor:
        for member in reader:
            if readable and not readable(member):
                continue
            newest = max(newest, member.mtime)
            parts = inside(member.name)[1:]
            if member.kind is SPECIAL or (not parts and member.kind is not FOLDER):
                continue
            if member.size > free_bytes(folder):
                raise OSError(errno.ENOSPC, f"a file of {sized(member.size)} is more than the service's disk has left")
            target = inside(member.target)[1:] if member.kind is HARD_LINK else ()
            extractor.add(member, parts, target, _mode(member, 0o777), reader.read)
        reader.drain()
    return newest


def _snapshot_reader(orders: dict[str, int], source: Source) -> Reader:
    return Reader(Gunzip(source), orders["most_bytes"], orders["most_members"])


def _mode(member: Member, usual: int) -> int:
    """The usual bits alone. Its owner, and the service, must be able to read it, and to remove it."""
    return member.mode & usual | (0o700 if member.kind is FOLDER else 0o600)


_TASKS = {CHECK: _check, SNAPSHOT: _unpack_snapshot, FETCHED: _unpack_fetched}

if __name__ == "__main__":
    told = dict(word.split("=") for word in sys.argv[2:])
    answer = main(sys.argv[1], {name: int(number) for name, number in told.items()})
    os.write(1, answer.encode("utf-8", "replace"))
