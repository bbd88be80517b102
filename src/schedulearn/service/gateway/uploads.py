"""Snapshots of users' project folders: content-addressed archives, checked member by member before they are kept.

A snapshot is known to its uploaders alone. To all others it is not there, even if they have the same content: knowing a
hash proves nothing.
"""

import hashlib
import os
import re
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import IO

from schedulearn.archive import confined, reader
from schedulearn.core.domain.errors import Conflict, InvalidSpec, OverLimit, SchedulearnError
from schedulearn.core.domain.units import format_size
from schedulearn.service.common.auth import Caller
from schedulearn.store import Store

_AT_ONCE = 4  # uploads of one user: each may take an hour, and as much disk as a snapshot may have
_UNPACKED_FACTOR = 20  # an archive that grows by more than this is a bomb
_USUAL_SIZE, _USUAL_FACTOR = 256 * 1000**2, 100  # and this much is the most that so few bytes may become
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MEMBERS = "files, folders, and links that stay inside the folder"


class TooLarge(SchedulearnError):
    """More bytes than are taken."""


class Uploads:
    """The archives, each under its own hash: whose they are, and how much of them one user may have."""

    def __init__(self, store: Store, folder: Path, clock: Callable[[], float], most: int) -> None:
        """`most` bytes of one user are kept; 0: any number."""
        self._store, self._folder, self._clock, self._most = store, folder, clock, most
        self.limit = 200 * 1000**2  # bytes of one archive
        self._busy: Counter[int] = Counter()
        self._lock = threading.Lock()

    def path(self, sha256: str) -> Path:
        if not _SHA256.fullmatch(sha256):
            raise InvalidSpec("snapshot", "is not a content hash", "64 hexadecimal digits (SHA-256 of the archive)")
        return self._folder / f"{sha256}.tar.gz"

    def has(self, caller: Caller, sha256: str) -> bool:
        """Whether the caller has uploaded it, and it is still here. Asking makes it young again: it is about to be
        used, and must not be cleaned away."""
        path = self.path(sha256)
        if not self._store.owns_snapshot(sha256, caller.id):
            return False
        try:
            os.utime(path)
        except FileNotFoundError:
            return False
        return True

    def begin(self, caller: Caller, sha256: str, announced: int) -> "Upload":
        """Take an archive in pieces, of as many bytes as are announced (0: that is not known)."""
        caller.must_be_person()
        path = self.path(sha256)
        self._store.check_snapshot_room(caller.id, sha256, announced, self._most)
        with self._lock:
            if self._busy[caller.id] >= _AT_ONCE:
                raise OverLimit(f"you are sending {_AT_ONCE} snapshots already", f"at most {_AT_ONCE} at a time")
            self._busy[caller.id] += 1
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)  # other users' code
            return Upload(self, caller, sha256)
        except BaseException:
            self.ended(caller)
            raise

    def keep(self, caller: Caller, sha256: str) -> None:
        """The archive is here and sound: it is the caller's now."""
        path = self.path(sha256)
        with self._lock:  # what one upload has just brought, another does not take away in between
            if not path.exists():
                raise Conflict("the snapshot was removed while it was being kept: send it once more")
            try:
                size = path.stat().st_size
                self._store.add_snapshot(sha256, caller.id, caller.name, size, self._clock(), self._most)
            except OverLimit:
                if not self._store.has_owners(sha256):
                    path.unlink(missing_ok=True)
                raise

    def ended(self, caller: Caller) -> None:
        with self._lock:
            self._busy[caller.id] -= 1
            if not self._busy[caller.id]:
                del self._busy[caller.id]


class Upload:
    """One archive on its way in. Nothing of it stays unless `finish` succeeds. Close it, however it ends."""

    def __init__(self, uploads: Uploads, caller: Caller, sha256: str) -> None:
        self._uploads, self._caller, self._sha256 = uploads, caller, sha256
        self._target = uploads.path(sha256)
        self._hash, self._size = hashlib.sha256(), 0
        handle, name = tempfile.mkstemp(prefix=".upload-", dir=self._target.parent)
        self._file: IO[bytes] = os.fdopen(handle, "wb")
        self._temporary = Path(name)

    def write(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size > (limit := self._uploads.limit):
            raise TooLarge(f"a snapshot may have at most {format_size(limit)}: leave data and outputs out of it")
        self._hash.update(chunk)
        self._file.write(chunk)

    def finish(self) -> None:
        """Check what came in, and keep it."""
        if self._hash.hexdigest() != self._sha256:
            raise InvalidSpec("snapshot", "the bytes received do not have this hash", "the SHA-256 of the body")
        self._file.flush()
        os.fsync(self._file.fileno())
        check_archive(self._temporary, self._uploads.limit * _UNPACKED_FACTOR)
        self._temporary.replace(self._target)
        self._uploads.keep(self._caller, self._sha256)

    def close(self) -> None:
        try:
            self._file.close()
            self._temporary.unlink(missing_ok=True)
        finally:
            self._uploads.ended(self._caller)


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
