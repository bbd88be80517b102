"""A project folder as one archive: what git would keep of it, the same bytes for the same content."""

import gzip
import hashlib
import os
import re
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from schedulearn.client.entries import Entry, largest, list_entries, unreadable
from schedulearn.client.errors import SnapshotError, SnapshotTooLarge
from schedulearn.wire.words import size

__all__ = ["Entry", "Snapshot", "list_entries", "make_snapshot", "snapshot_limit"]
LIMIT = "SCHEDULEARN_SNAPSHOT_LIMIT"
DEFAULT_LIMIT = 200 * 1000**2  # bytes, before compression
_UNITS = {"": 1, "K": 1000, "KI": 1024, "M": 1000**2, "MI": 1024**2, "G": 1000**3, "GI": 1024**3}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A packed folder in a temporary file, which is removed at the end of the `with` statement."""

    path: Path
    sha256: str
    size: int  # of the archive
    entries: int

    def close(self) -> None:
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> "Snapshot":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def make_snapshot(folder: Path, limit: int | None = None) -> Snapshot:
    """Pack a folder. SnapshotTooLarge above `limit` bytes (SCHEDULEARN_SNAPSHOT_LIMIT, else 200 MB)."""
    entries = list_entries(folder)
    _check_size(entries, snapshot_limit() if limit is None else limit)
    handle, name = tempfile.mkstemp(prefix="schedulearn-", suffix=".tar.gz")
    try:
        with open(handle, "wb") as file:
            writer = _Hashing(file)
            _pack(folder, entries, cast(IO[bytes], writer))
        return Snapshot(Path(name), writer.sha256.hexdigest(), writer.size, len(entries))
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def snapshot_limit() -> int:
    """The limit that the environment sets, such as `500MB`, or the default."""
    text = os.environ.get(LIMIT, "").strip()
    if not text:
        return DEFAULT_LIMIT
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?I?)B?", text.upper())
    if not match or match[2] not in _UNITS:
        raise SnapshotError(f"{LIMIT}: {text!r} is not a size such as 500MB or 2GB")
    return round(float(match[1]) * _UNITS[match[2]])


def _check_size(entries: list[Entry], limit: int) -> None:
    total = sum(entry.size for entry in entries)
    if total > limit:
        raise SnapshotTooLarge(
            f"the working folder holds {size(total)}, more than the limit of {size(limit)}; "
            f"put data and outputs into .gitignore, or raise {LIMIT}. {largest(entries)}"
        )


def _pack(folder: Path, entries: list[Entry], file: IO[bytes]) -> None:
    # No name and no time in gzip's own header: equal content must give equal bytes.
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for entry in entries:
            _add(archive, folder, entry)


def _add(archive: tarfile.TarFile, folder: Path, entry: Entry) -> None:
    member = tarfile.TarInfo(entry.path)
    member.mode, member.mtime = entry.mode, entry.mtime
    if entry.kind == "folder":
        member.type = tarfile.DIRTYPE
        archive.addfile(member)
    elif entry.kind == "link":
        member.type, member.linkname = tarfile.SYMTYPE, entry.target
        archive.addfile(member)
    else:
        member.size = entry.size
        try:
            with open(os.open(folder / entry.path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as source:
                archive.addfile(member, source)
        except OSError as problem:
            raise unreadable(entry.path, problem) from problem


class _Hashing:
    """A file that knows the hash of what was written into it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256, self.size = hashlib.sha256(), 0

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        self.size += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()
