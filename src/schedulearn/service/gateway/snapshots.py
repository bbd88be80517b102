"""Snapshots of users' project folders: content-addressed archives, checked member by member before they are kept."""

import hashlib
import os
import re
import tempfile
from pathlib import Path
from typing import IO

from schedulearn.archive import confined, reader
from schedulearn.core.domain.errors import InvalidSpec, SchedulearnError
from schedulearn.core.domain.units import format_size

DEFAULT_LIMIT = 200 * 1000**2  # bytes of the archive
_UNPACKED_FACTOR = 20  # an archive that grows by more than this is a bomb
_USUAL_SIZE, _USUAL_FACTOR = 256 * 1000**2, 100  # and this much is the most that so few bytes may become
_SHA256 = re.compile(r"[0-9a-f]{64}")


class TooLarge(SchedulearnError):
    """More bytes than are taken."""


class SnapshotFolder:
    """The archives, each under its own hash."""

    def __init__(self, folder: Path, limit: int = DEFAULT_LIMIT) -> None:
        self._folder = folder
        self.limit = limit

    def path(self, sha256: str) -> Path:
        if not _SHA256.fullmatch(sha256):
            raise InvalidSpec("snapshot", "is not a content hash", "64 hexadecimal digits (SHA-256 of the archive)")
        return self._folder / f"{sha256}.tar.gz"

    def has(self, sha256: str) -> bool:
        """Whether it is here. Asking makes it young again: it is about to be used, and must not be cleaned away."""
        try:
            os.utime(self.path(sha256))
        except FileNotFoundError:
            return False
        return True

    def upload(self, sha256: str) -> "Upload":
        """Take an archive in pieces."""
        self.path(sha256)
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # other users' code
        return Upload(self, sha256)


class Upload:
    """One archive on its way in. Nothing of it stays unless `finish` succeeds."""

    def __init__(self, folder: SnapshotFolder, sha256: str) -> None:
        self._target, self._sha256, self._limit = folder.path(sha256), sha256, folder.limit
        self._hash, self._size = hashlib.sha256(), 0
        handle, name = tempfile.mkstemp(prefix=".upload-", dir=self._target.parent)
        self._file: IO[bytes] = os.fdopen(handle, "wb")
        self._temporary = Path(name)

    def write(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size > self._limit:
            raise TooLarge(f"a snapshot may have at most {format_size(self._limit)}: leave data and outputs out of it")
        self._hash.update(chunk)
        self._file.write(chunk)

    def finish(self) -> None:
        """Check what came in, and keep it."""
        if self._hash.hexdigest() != self._sha256:
            raise InvalidSpec("snapshot", "the bytes received do not have this hash", "the SHA-256 of the body")
        self._file.flush()
        os.fsync(self._file.fileno())
        check_archive(self._temporary, self._limit * _UNPACKED_FACTOR)
        self._temporary.replace(self._target)

    def close(self) -> None:
        self._file.close()
        self._temporary.unlink(missing_ok=True)


def check_archive(archive: Path, unpacked_limit: int) -> None:
    """InvalidSpec unless every member would land inside the folder that it is unpacked into.

    A child looks at it, with limits: nothing that an archive holds can hold up the service.
    """
    most = min(unpacked_limit, _USUAL_SIZE + _USUAL_FACTOR * archive.stat().st_size)
    try:
        confined.check(archive, most)
    except reader.TooLarge as error:
        allowed = f"at most {confined.MOST_SNAPSHOT_FILES} files and {format_size(most)}"
        raise InvalidSpec("snapshot", f"it unpacks to too much: {error}", allowed) from error
    except reader.Refused as error:
        raise InvalidSpec("snapshot", f"the archive is refused: {error}", _MEMBERS) from error
    except reader.Damaged as error:
        raise InvalidSpec("snapshot", f"the archive cannot be read: {error}", "a gzip-compressed tar file") from error


_MEMBERS = "files, folders, and links that stay inside the folder"
