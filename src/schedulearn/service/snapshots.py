"""Snapshots of users' project folders: content-addressed archives, checked member by member before they are kept."""

import hashlib
import os
import re
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from schedulearn.domain.archive import Members, Unsafe
from schedulearn.domain.errors import InvalidSpec, SchedulearnError
from schedulearn.domain.units import format_size

DEFAULT_LIMIT = 200 * 1000**2  # bytes of the archive
_UNPACKED_FACTOR = 20  # an archive that grows by more than this is a bomb
_MAX_MEMBERS = 200_000
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
    """InvalidSpec unless every member would land inside the folder that it is unpacked into."""
    members, size = Members(), 0
    with _opened(archive) as tar:
        for count, member in enumerate(tar, 1):
            size += member.size
            if count > _MAX_MEMBERS or size > unpacked_limit:
                most = f"{_MAX_MEMBERS} files and {format_size(unpacked_limit)}"
                raise InvalidSpec("snapshot", "it unpacks to too much", f"at most {most}")
            members.check(member)


@contextmanager
def _opened(archive: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(archive, "r:gz") as tar:
            yield tar
    except (tarfile.TarError, EOFError, OSError, ValueError, OverflowError) as error:
        raise InvalidSpec("snapshot", "the archive cannot be read", "a gzip-compressed tar file") from error
    except Unsafe as error:
        raise InvalidSpec("snapshot", f"the archive is refused: {error}", _MEMBERS) from error
    except Exception as error:
        if isinstance(error, SchedulearnError):
            raise
        # zlib and struct have errors of their own for damaged bytes.
        raise InvalidSpec("snapshot", "the archive is damaged", "a gzip-compressed tar file") from error


_MEMBERS = "files, folders, and links that stay inside the folder"
