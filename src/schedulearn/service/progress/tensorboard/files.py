"""Finds TensorBoard's event files in a job's folders, and reads what was added to them since the last look.

The job owns these folders and may do anything in them while we read: links are never followed (each step is opened
relative to the folder before it), only plain files of the job's own user are read, and what is looked at is bounded.
"""

import os
import stat
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from schedulearn.service.progress.tensorboard.records import FOOTER, HEADER, LARGEST, Scalar, scan

_MARK = "tfevents"  # in the name of each event file
_MOST_FOLDERS, _MOST_FILES, _DEEPEST = 1000, 100, 8  # of one job
_MOST_ENTRIES = 20_000  # of one folder that are looked at
_MOST_LISTED = 100_000  # of all folders in one look
_NO_PLACE = frozenset({"__pycache__", "node_modules", "site-packages"})  # where no training writes
_CHUNK = 1 << 18
_RECENT = 2.0  # seconds: what changed later than that may change again without a new time of change
_SEEN_AGAIN = 64  # bytes before the place where we stopped: is it still the same file?
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO must not block us


@dataclass(slots=True)
class _Listing:
    """What a folder had in it when it was last read."""

    changed: int = -1  # its time of change then, in ns; -1: must be read again
    folders: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    entries: int = 0  # of any kind


@dataclass(slots=True)
class _File:
    inode: int = 0
    place: int = 0  # how far it was read
    before: bytes = b""  # what stands just before that place
    size: int = -1  # when it was last looked at
    damaged: bool = False  # what follows cannot be read


class EventFiles:
    """Those below one folder. Not thread-safe."""

    def __init__(self, root: Path, since: float) -> None:
        """Files that were last written before `since` came with the project: they are of earlier trainings."""
        self._root, self._since = root, since
        self._listings: dict[str, _Listing] = {}
        self._files: dict[str, _File] = {}

    def look(self, most: int) -> Iterator[list[tuple[str, Scalar]]]:
        """(folder relative to the root, scalar) of what is new, a piece of a file at a time, from so many bytes at
        most; the rest, and what is not asked for, comes with a later look."""
        try:
            owner = self._root.lstat().st_uid
        except OSError:
            return
        paths = list(islice(self._find(), _MOST_FILES))
        self._files = {path: self._files.get(path) or _File() for path in paths}
        for path, file in self._files.items():
            folder = str(Path(path).parent)
            while most > 0:
                scalars, read = self._read(path, file, owner)
                if not read:
                    break
                most -= read
                yield [(folder, scalar) for scalar in scalars]

    # --- finding

    def _find(self) -> Iterator[str]:
        """Event files, relative to the root. A folder is read again only when it has changed."""
        known, self._listings = self._listings, {}
        waiting = deque([""])
        left = _MOST_LISTED
        while waiting and len(self._listings) < _MOST_FOLDERS and left > 0:
            folder = waiting.popleft()
            listing = self._listings[folder] = self._list(folder, known.get(folder) or _Listing())
            left -= listing.entries
            yield from (_below(folder, name) for name in listing.files)
            if folder.count("/") < _DEEPEST:
                waiting += [_below(folder, name) for name in listing.folders]

    def _list(self, folder: str, listing: _Listing) -> _Listing:
        try:
            changed = (self._root / folder).lstat().st_mtime_ns
            if changed == listing.changed:
                return listing
            with _Opened(self._root, folder) as handle, os.scandir(handle.fileno) as entries:
                fresh = _sorted(list(islice(entries, _MOST_ENTRIES)))
        except OSError:
            return _Listing()
        fresh.changed = changed if time.time() - changed / 1e9 > _RECENT else -1
        return fresh

    # --- reading

    def _read(self, path: str, file: _File, owner: int) -> tuple[list[Scalar], int]:
        """The scalars of the next piece of one file, and how many bytes were read for them."""
        try:
            info = (self._root / path).lstat()
            if info.st_mtime < self._since or (info.st_ino, info.st_size) == (file.inode, file.size):
                return [], 0
            with _Opened(self._root, path) as handle:
                return self._read_on(handle.fileno, file, owner)
        except OSError:  # it went away meanwhile, or is none of our business
            return [], 0

    def _read_on(self, handle: int, file: _File, owner: int) -> tuple[list[Scalar], int]:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode) or info.st_uid != owner:
            return [], 0
        if not _is_same(file, handle):
            file.place, file.damaged = 0, False
        file.inode, file.size = info.st_ino, info.st_size
        if file.damaged or file.place >= info.st_size:
            return [], 0
        data = os.pread(handle, _CHUNK, file.place)
        scalars, used, over = scan(data)
        file.place += used
        file.damaged = not used and not over and len(data) > HEADER + LARGEST + FOOTER  # no record in so much
        stepped = over > 0 and file.place + over <= info.st_size
        file.place += over if stepped else 0
        if (used or stepped) and file.place < info.st_size:
            file.size = -1  # there is more to read; else the rest is still to be written
        file.before = os.pread(handle, min(_SEEN_AGAIN, file.place), max(0, file.place - _SEEN_AGAIN))
        return scalars, len(data)


class _Opened:
    """A file or folder below the root, without following any link."""

    def __init__(self, root: Path, path: str) -> None:
        *folders, last = Path(path).parts or (".",)
        self.fileno = os.open(root, _FOLDER)
        for part in folders:
            self._step(part, _FOLDER)
        self._step(last, _FILE)

    def _step(self, part: str, flags: int) -> None:
        try:
            below = os.open(part, flags, dir_fd=self.fileno)
        finally:
            os.close(self.fileno)
        self.fileno = below

    def __enter__(self) -> "_Opened":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fileno)


def _below(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _sorted(entries: list["os.DirEntry[str]"]) -> _Listing:
    listing = _Listing(entries=len(entries))
    for entry in sorted(entries, key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            if not entry.name.startswith(".") and entry.name not in _NO_PLACE:
                listing.folders.append(entry.name)
        elif _MARK in entry.name and entry.is_file(follow_symlinks=False):
            listing.files.append(entry.name)
    return listing


def _is_same(file: _File, handle: int) -> bool:
    """Whether it goes on where we stopped: as it was, or a copy of it (of a container). If not, it is a new one."""
    return os.pread(handle, len(file.before), file.place - len(file.before)) == file.before
