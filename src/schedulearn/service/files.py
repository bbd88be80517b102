"""A job's files as a tar stream, without ever following a link out of its folder.

The job itself may swap a folder for a link while we read, so a check of the path beforehand would prove nothing.
Each step is opened relative to the folder before it, and links are never followed.
"""

import os
import stat
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path, PurePosixPath

from schedulearn.domain.errors import InvalidSpec, NotFound

_CHUNK = 1 << 18
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO must not block us


def tar_of(root: Path, path: str) -> Iterator[bytes]:
    """A tar stream of `path` (relative; "" is everything) below `root`. Errors are raised before the first byte."""
    stream = _stream(root, _parts(path), path)
    return chain([next(stream)], stream)


def _parts(path: str) -> tuple[str, ...]:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or "\0" in path or len(path) > 4096:
        raise InvalidSpec("path", "leads out of the job's folder", "a path inside the run folder, such as out/model.pt")
    return pure.parts


def _stream(root: Path, parts: tuple[str, ...], path: str) -> Iterator[bytes]:
    parent = _open_parent(root, parts[:-1], path)
    try:
        name = parts[-1] if parts else "."
        try:
            info = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except OSError:
            raise NotFound(f"there is no {path!r} among the files of this job") from None
        yield from _entry(parent, name, info, PurePosixPath(*parts))
        yield bytes(2 * tarfile.BLOCKSIZE)
    finally:
        os.close(parent)


def _open_parent(root: Path, parts: tuple[str, ...], path: str) -> int:
    try:
        folder = os.open(root, _FOLDER)
    except OSError:
        raise NotFound("this job has no files: it has not started yet, or they have been removed") from None
    for part in parts:
        try:
            below = os.open(part, _FOLDER, dir_fd=folder)
        except OSError:
            raise NotFound(f"{path!r} does not lead to a file of this job (links are not followed)") from None
        finally:
            os.close(folder)
        folder = below
    return folder


def _entry(parent: int, name: str, info: os.stat_result, arcname: PurePosixPath) -> Iterator[bytes]:
    header = tarfile.TarInfo(str(arcname))
    header.mtime = int(info.st_mtime)
    header.mode = stat.S_IMODE(info.st_mode) & 0o777
    if stat.S_ISDIR(info.st_mode):
        header.type = tarfile.DIRTYPE
        yield _bytes(header)
        yield from _folder(parent, name, arcname)
    elif stat.S_ISLNK(info.st_mode):
        header.type = tarfile.SYMTYPE
        with suppress(OSError):  # it went away meanwhile
            header.linkname = os.readlink(name, dir_fd=parent)
        if header.linkname:
            yield _bytes(header)
    elif stat.S_ISREG(info.st_mode):
        yield from _file(parent, name, header)
    # Sockets, pipes and devices are no output of a training.


def _folder(parent: int, name: str, arcname: PurePosixPath) -> Iterator[bytes]:
    try:
        folder = os.open(name, _FOLDER, dir_fd=parent)
    except OSError:
        return
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries)
        for entry in names:
            try:
                info = os.stat(entry, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield from _entry(folder, entry, info, arcname / entry)
    finally:
        os.close(folder)


def _file(parent: int, name: str, header: tarfile.TarInfo) -> Iterator[bytes]:
    try:
        handle = os.open(name, _FILE, dir_fd=parent)
    except OSError:
        return
    with os.fdopen(handle, "rb") as file:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            return
        header.size = left = info.st_size
        yield _bytes(header)
        while left:
            # A file that shrinks meanwhile is filled up with zeros: the header has promised its size.
            chunk = file.read(min(_CHUNK, left)) or bytes(min(_CHUNK, left))
            left -= len(chunk)
            yield chunk
        yield bytes(-header.size % tarfile.BLOCKSIZE)


def _bytes(header: tarfile.TarInfo) -> bytes:
    return header.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
