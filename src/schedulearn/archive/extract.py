"""Files, folders and links put below one open folder, step by step from its descriptor: no link is ever followed."""

from __future__ import annotations

import errno
import os
import stat

from schedulearn.archive.reader import CHUNK, FILE, FOLDER, HARD_LINK, LINK, Refused, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from schedulearn.archive.reader import Member

OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOOK_EVERY = 16 << 20  # bytes written between two looks at what the disk has left
_COST = 4096  # bytes that a thing without content counts for
_RESERVE = 1 << 30  # bytes that are left free on a large disk
_SHARE = 0.05  # of a small one; and of the files that it can hold
_ZEROS = bytes(CHUNK)


class Room:
    """Keeps something of the disk free for all else."""

    def __init__(self, folder: int) -> None:
        self._folder = folder
        self._spent = _LOOK_EVERY

    def spend(self, size: int) -> None:
        """OSError (no space left) if too little of the disk is free."""
        self._spent += size
        if self._spent >= _LOOK_EVERY:
            self._spent = 0
            if free_bytes(self._folder) <= 0:
                raise OSError(errno.ENOSPC, "the rest of the service's disk is kept free")


def free_bytes(folder: int) -> int:
    """What may be written to the disk that this folder lies on."""
    disk = os.fstatvfs(folder)
    if disk.f_files and disk.f_favail < disk.f_files * _SHARE / 5:
        return 0
    reserve = min(_RESERVE, int(disk.f_blocks * disk.f_frsize * _SHARE))
    return max(0, disk.f_bavail * disk.f_frsize - reserve)


class Extractor:
    """Puts members below a folder. What is in the way is replaced, unless it is a folder."""

    def __init__(self, folder: int, room: Room | None = None, owners: bool = False) -> None:
        """With `owners` everything keeps its owner: only root can do that."""
        self._folder, self._room, self._owners = folder, room, owners
        self._place: tuple[str, ...] = ()
        self._opened: int | None = None  # the folder at `_place`

    def __enter__(self) -> Extractor:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def add(
        self, member: Member, parts: tuple[str, ...], target: tuple[str, ...], mode: int, read: Callable[[int], bytes]
    ) -> None:
        """`target`: where a hard link leads. The bits of the mode are taken as they are."""
        if self._room:
            self._room.spend(_COST)
        if not parts:
            if member.kind is FOLDER:
                return
            raise Refused("the folder itself is no folder")
        if member.kind is FOLDER:
            self._add_folder(member, parts, mode)
            return
        parent, name = self._enter(parts[:-1]), parts[-1]
        if member.kind is FILE:
            self._make_way(parent, name)
            self._add_file(member, parent, name, mode, read)
        elif member.kind is LINK:
            self._make_way(parent, name)
            os.symlink(member.target, name, dir_fd=parent)
            if self._owners:
                os.chown(name, member.uid, member.gid, dir_fd=parent, follow_symlinks=False)
        elif member.kind is HARD_LINK and target != parts:
            self._add_hard_link(member, parent, name, target)

    def _add_folder(self, member: Member, parts: tuple[str, ...], mode: int) -> None:
        folder = self._enter(parts)
        if self._owners:
            os.fchown(folder, member.uid, member.gid)
        os.fchmod(folder, mode)

    def _add_file(self, member: Member, parent: int, name: str, mode: int, read: Callable[[int], bytes]) -> None:
        file = os.open(name, _NEW_FILE, 0o600, dir_fd=parent)
        try:
            self._fill(file, member.size, read)
            if self._owners:
                os.fchown(file, member.uid, member.gid)
            os.fchmod(file, mode)
            os.utime(file, (member.mtime, member.mtime))
        finally:
            os.close(file)

    def _fill(self, file: int, size: int, read: Callable[[int], bytes]) -> None:
        """Zeros are left out: a file with holes stays one."""
        at = 0
        while data := read(CHUNK):
            if data != _ZEROS[: len(data)]:
                if self._room:
                    self._room.spend(len(data))
                _write_at(file, data, at)
            at += len(data)
        os.ftruncate(file, size)

    def _add_hard_link(self, member: Member, parent: int, name: str, target: tuple[str, ...]) -> None:
        place = _open_below(self._folder, target[:-1], member.name)
        try:
            if not target or not stat.S_ISREG(os.stat(target[-1], dir_fd=place, follow_symlinks=False).st_mode):
                raise Refused(f"{shown(member.name)} links to what is no file")
            self._make_way(parent, name)
            os.link(target[-1], name, src_dir_fd=place, dst_dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            raise Refused(f"{shown(member.name)} links to nothing in it") from None
        finally:
            os.close(place)

    def _make_way(self, parent: int, name: str) -> None:
        try:
            os.unlink(name, dir_fd=parent)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno in (errno.EISDIR, errno.EPERM):
                raise Refused(f"{shown(name)} is a folder already") from None
            raise

    def _enter(self, parts: tuple[str, ...]) -> int:
        """The folder at this place, made if it is missing. Open until another one is entered."""
        if self._opened is None or parts != self._place:
            self._leave()
            self._opened, self._place = _open_below(self._folder, parts, "/".join(parts), make=True), parts
        return self._opened

    def _leave(self) -> None:
        if self._opened is not None:
            os.close(self._opened)
            self._opened = None


def _open_below(folder: int, parts: tuple[str, ...], name: str, make: bool = False) -> int:
    at = os.dup(folder)
    for part in parts:
        try:
            below = _open_step(at, part, make)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise Refused(f"{shown(name)} goes through a link or a file") from None
            if error.errno == errno.ENOENT:
                raise Refused(f"{shown(name)} links to nothing in it") from None
            raise
        finally:
            os.close(at)
        at = below
    return at


def _open_step(at: int, part: str, make: bool) -> int:
    try:
        return os.open(part, OPEN_FOLDER, dir_fd=at)
    except FileNotFoundError:
        if not make:
            raise
    os.mkdir(part, 0o755, dir_fd=at)
    return os.open(part, OPEN_FOLDER, dir_fd=at)


def _write_at(file: int, data: bytes, at: int) -> None:
    while data:
        written = os.pwrite(file, data, at)
        data, at = data[written:], at + written
