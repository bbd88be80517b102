"""Uploads of project folders: whose they are, and how much of them one user may have.

A snapshot is known to its uploaders alone. To all others it is not there, even if they have the same content: knowing a
hash proves nothing.
"""

import threading
from collections import Counter
from collections.abc import Callable

from schedulearn.core.domain.errors import Conflict, OverLimit
from schedulearn.service.common.auth import Caller
from schedulearn.service.gateway.snapshots import SnapshotFolder, Upload
from schedulearn.store import Store

_AT_ONCE = 4  # uploads of one user: each may take an hour, and as much disk as a snapshot may have


class Uploads:
    def __init__(self, store: Store, folder: SnapshotFolder, clock: Callable[[], float], most: int) -> None:
        """`most` bytes of one user are kept; 0: any number."""
        self._store, self._folder, self._clock, self._most = store, folder, clock, most
        self._busy: Counter[int] = Counter()
        self._lock = threading.Lock()

    @property
    def limit(self) -> int:
        """Bytes of one archive."""
        return self._folder.limit

    def has(self, caller: Caller, sha256: str) -> bool:
        """Whether the caller has uploaded it, and it is still here."""
        self._folder.path(sha256)
        return self._store.owns_snapshot(sha256, caller.id) and self._folder.has(sha256)

    def begin(self, caller: Caller, sha256: str, announced: int) -> "OwnUpload":
        """Take an archive in pieces, of as many bytes as are announced (0: that is not known)."""
        caller.must_be_person()
        self._folder.path(sha256)
        self._store.check_snapshot_room(caller.id, sha256, announced, self._most)
        with self._lock:
            if self._busy[caller.id] >= _AT_ONCE:
                raise OverLimit(f"you are sending {_AT_ONCE} snapshots already", f"at most {_AT_ONCE} at a time")
            self._busy[caller.id] += 1
        try:
            return OwnUpload(self, caller, sha256, self._folder.upload(sha256))
        except BaseException:
            self.ended(caller)
            raise

    def keep(self, caller: Caller, sha256: str) -> None:
        """The archive is here and sound: it is the caller's now."""
        path = self._folder.path(sha256)
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


class OwnUpload:
    """One archive on its way in, and whose it will be. Close it, however it ends."""

    def __init__(self, uploads: Uploads, caller: Caller, sha256: str, upload: Upload) -> None:
        self._uploads, self._caller, self._sha256, self._upload = uploads, caller, sha256, upload
        self.write = upload.write

    def finish(self) -> None:
        """Check what came in, and keep it."""
        self._upload.finish()
        self._uploads.keep(self._caller, self._sha256)

    def close(self) -> None:
        try:
            self._upload.close()
        finally:
            self._uploads.ended(self._caller)
