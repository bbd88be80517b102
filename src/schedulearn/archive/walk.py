"""Everything below a folder that a job may change while we look: each step is opened from the one before it.

A check of a path beforehand would prove nothing, as the job may swap a folder for a link right after it. So no name is
ever looked up from the top, and links are never followed.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from schedulearn.archive.extract import OPEN_FOLDER
from schedulearn.archive.reader import TooLarge, shown

MOST_ENTRIES = 2_000_000
MOST_DEPTH = 100  # what comes out of a container lies a little deeper, and must not be refused for that
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO must not block us
_READ_BY_OTHERS = {stat.S_IFDIR: 0o005, stat.S_IFREG: 0o004}

Parts = tuple[str, ...]


class Found:
    """One thing. It can be opened until the next one is asked for."""

    __slots__ = ("_parent", "info", "parts")

    def __init__(self, parent: int, parts: Parts, info: os.stat_result) -> None:
        self._parent, self.parts, self.info = parent, parts, info

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.info.st_mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.info.st_mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.info.st_mode)

    def target(self) -> str:
        """Where a link leads; "" if it has gone meanwhile."""
        with suppress(OSError):
            return os.readlink(self._name, dir_fd=self._parent)
        return ""

    def open(self) -> int | None:
        """A file that it still is: the very one that was looked at. None if it has gone, or is another now."""
        try:
            opened = os.open(self._name, _OPEN_FILE, dir_fd=self._parent)
        except OSError:
            return None
        info = os.fstat(opened)
        if stat.S_ISREG(info.st_mode) and (info.st_dev, info.st_ino) == (self.info.st_dev, self.info.st_ino):
            return opened
        os.close(opened)
        return None

    def link(self, place: Path) -> bool:
        """Give the very file that was looked at a second name; False if it has gone, or is another now."""
        try:
            os.link(self._name, place, src_dir_fd=self._parent, follow_symlinks=False)
        except FileNotFoundError:
            return False
        info = place.lstat()
        if (info.st_dev, info.st_ino) != (self.info.st_dev, self.info.st_ino):
            place.unlink()
            return False
        return True

    @property
    def _name(self) -> str:
        return self.parts[-1] if self.parts else "."


class Tree:
    """A folder, open. With `anyones` also what its owner could not read: else root would read it for the owner.

    (A hard link, or a file moved here, may be another user's.)
    """

    def __init__(self, root: Path, anyones: bool = False) -> None:
        """OSError unless it is a folder: a link to one is none."""
        self._root = os.open(root, OPEN_FOLDER)
        self._owner = None if anyones or os.geteuid() != 0 else os.fstat(self._root).st_uid

    def __enter__(self) -> "Tree":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._root)

    def at(self, parts: Parts) -> Iterator[Found]:
        """The thing at a path and, if it is a folder, everything below: folders before what is in them.

        Nothing if there is no such thing. TooLarge if there is too much, or it lies too deep.
        """
        parent = self._open(parts[:-1])
        if parent is None:
            return
        try:
            found = self._look(parent, parts)
            if found is None:
                return
            yield found
        finally:
            os.close(parent)
        if found.is_folder:
            yield from self.below(parts)

    def below(self, parts: Parts = (), strict: bool = True) -> Iterator[Found]:
        """Everything in a folder. Not `strict`: what is too much, or lies too deep, is left out."""
        waiting, count = [parts], 0
        while waiting:
            place = waiting.pop()
            folder = self._open(place)
            if folder is None:
                continue
            try:
                names = _names(folder, MOST_ENTRIES - count, strict)
                count += len(names) if strict else 0
                folders = []
                for name in names:
                    found = self._look(folder, (*place, name))
                    if found:
                        yield found
                        folders += [found.parts] if found.is_folder else []
            finally:
                os.close(folder)
            if folders and len(place) >= MOST_DEPTH - 1:
                if strict:
                    raise TooLarge(f"{shown('/'.join(place))} holds folders deeper than {MOST_DEPTH} levels")
                continue
            waiting += reversed(folders)

    def _look(self, parent: int, parts: Parts) -> Found | None:
        """None if it has gone, or is nothing that its owner could read."""
        try:
            info = os.stat(parts[-1] if parts else ".", dir_fd=parent, follow_symlinks=False)
        except OSError:
            return None
        return Found(parent, parts, info) if self._may_read(info) else None

    def _may_read(self, info: os.stat_result) -> bool:
        if self._owner is None or self._owner in (0, info.st_uid):
            return True
        needed = _READ_BY_OTHERS.get(stat.S_IFMT(info.st_mode), 0)
        return info.st_mode & needed == needed

    def _open(self, parts: Parts) -> int | None:
        at = os.dup(self._root)
        for part in parts:
            try:
                below = os.open(part, OPEN_FOLDER, dir_fd=at)
            except OSError:
                return None
            finally:
                os.close(at)
            at = below
            if not self._may_read(os.fstat(at)):
                os.close(at)
                return None
        return at


def _names(folder: int, most: int, strict: bool) -> list[str]:
    with os.scandir(folder) as entries:
        names = [entry.name for entry in islice(entries, most + 1)]
    if strict and len(names) > most:
        raise TooLarge(f"there are more than {MOST_ENTRIES:,} files")
    return sorted(names[:most])


def any_name(folder: Path) -> Iterator[str]:
    """The names in a folder; none if there is no such folder, or it is a link."""
    try:
        opened = os.open(folder, OPEN_FOLDER)
    except OSError:
        return
    try:
        with os.scandir(opened) as entries:
            for entry in entries:
                yield entry.name
    finally:
        os.close(opened)
