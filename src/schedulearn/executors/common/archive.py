"""Folders as tar streams, in both directions. What a job wrote is never trusted: no link is followed on either way."""

import io
import os
import stat
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from schedulearn.domain.archive import changed, extract_plainly
from schedulearn.domain.errors import ExecutorError
from schedulearn.domain.units import short
from schedulearn.executors.common.snapshot import Owner, give

CHUNK = 1 << 18
END = bytes(2 * tarfile.BLOCKSIZE)


@dataclass(frozen=True, slots=True)
class Entry:
    """A folder of the service, or a file with the given content, and where it goes in an archive."""

    name: str
    source: Path | None = None  # a folder; None: see the next two
    content: bytes | None = None  # a file; None as well: an empty folder
    mode: int = 0o700


def pack(entries: Iterable[Entry], owner: tuple[int, int]) -> Iterator[bytes]:
    """One archive of all entries, everything in it the owner's. Symbolic links are kept, special files left out."""
    for entry in entries:
        if entry.content is not None:
            header = _header(entry.name, entry.mode, owner)
            header.size = len(entry.content)
            yield _bytes(header) + entry.content + _padding(header.size)
        else:
            yield _folder_header(entry.name, entry.mode, owner)
            if entry.source is not None:
                yield from _pack_folder(entry.source, PurePosixPath(entry.name), owner)
    yield END


def _pack_folder(folder: Path, name: PurePosixPath, owner: tuple[int, int]) -> Iterator[bytes]:
    for found in sorted(os.scandir(folder), key=lambda found: found.name):
        path, inside = Path(found.path), name / found.name
        info = found.stat(follow_symlinks=False)
        mode = stat.S_IMODE(info.st_mode) & 0o777
        if stat.S_ISDIR(info.st_mode):
            yield _folder_header(str(inside), mode, owner, info.st_mtime)
            yield from _pack_folder(path, inside, owner)
        elif stat.S_ISLNK(info.st_mode):
            header = _header(str(inside), mode, owner, info.st_mtime)
            header.type, header.linkname = tarfile.SYMTYPE, str(path.readlink())
            yield _bytes(header)
        elif stat.S_ISREG(info.st_mode):
            yield from _pack_file(path, _header(str(inside), mode, owner, info.st_mtime))


def _pack_file(path: Path, header: tarfile.TarInfo) -> Iterator[bytes]:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        header.size = left = os.fstat(file.fileno()).st_size
        yield _bytes(header)
        while left:
            # A file that shrinks meanwhile is filled up with zeros: the header has promised its size.
            chunk = file.read(min(CHUNK, left)) or bytes(min(CHUNK, left))
            left -= len(chunk)
            yield chunk
    yield _padding(header.size)


def _folder_header(name: str, mode: int, owner: tuple[int, int], mtime: float = 0) -> bytes:
    header = _header(name, mode, owner, mtime)
    header.type = tarfile.DIRTYPE
    return _bytes(header)


def _header(name: str, mode: int, owner: tuple[int, int], mtime: float = 0) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.mode, header.mtime = mode, int(mtime)
    header.uid, header.gid = owner
    return header


def _bytes(header: tarfile.TarInfo) -> bytes:
    return header.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _padding(size: int) -> bytes:
    return bytes(-size % tarfile.BLOCKSIZE)


# --- the other way


def unpack(chunks: Iterable[bytes], folder: Path, owner: Owner) -> float:
    """The content of the one folder that an archive holds; returns the newest time of change in it.

    ExecutorError if a member would lie outside, or behind a link.
    """
    newest = 0.0
    links: set[PurePosixPath] = set()
    try:
        with extract_plainly(_open(chunks)) as archive:
            for member in archive:
                newest = max(newest, member.mtime)
                if taken := _taken(member, links):
                    archive.extract(taken, folder, numeric_owner=True)
    except (tarfile.TarError, KeyError) as error:  # KeyError: a hard link to something that is not there
        raise ExecutorError(f"the archive is damaged: {error}") from error
    if owner:
        give(folder, owner)
    return newest


def moved(chunks: Iterable[bytes], place: str) -> Iterator[bytes]:
    """The same archive with `place` instead of the name of the file or folder that it holds; special files left out."""
    try:
        with _open(chunks) as archive:
            for member in archive:
                if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
                    continue
                yield _bytes(_renamed(member, place))
                if member.isreg() and (file := archive.extractfile(member)):
                    while chunk := file.read(CHUNK):
                        yield chunk
                    yield _padding(member.size)
    except tarfile.TarError as error:
        raise ExecutorError(f"the archive is damaged: {error}") from error
    yield END


def _renamed(member: tarfile.TarInfo, place: str) -> tarfile.TarInfo:
    below = PurePosixPath(place, *PurePosixPath(member.name).parts[1:])
    linked = member.linkname
    if member.islnk():
        linked = str(PurePosixPath(place, *PurePosixPath(linked).parts[1:]))
    mode = member.mode & 0o777
    # The headers of its own would keep the old name.
    return changed(
        member, name=str(below), linkname=linked, mode=mode, uid=0, gid=0, uname="", gname="", pax_headers={}
    )


def read_file(chunks: Iterable[bytes], largest: int) -> bytes:
    """The one file that an archive holds; b"" if it is none, or too large."""
    try:
        with _open(chunks) as archive:
            member = archive.next()
            file = archive.extractfile(member) if member and member.isreg() and member.size <= largest else None
            return file.read() if file else b""
    except tarfile.TarError as error:
        raise ExecutorError(f"the archive is damaged: {error}") from error


def _taken(member: tarfile.TarInfo, links: set[PurePosixPath]) -> tarfile.TarInfo | None:
    """The member without the name of the folder around all; None if it is the folder itself, or nothing to keep."""
    path = _below(member.name, links)
    if path == PurePosixPath() or not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return None
    if member.issym():
        links.add(path)
    linked = str(_below(member.linkname, links)) if member.islnk() else member.linkname
    # The service must be able to read, and later remove, what the job made.
    mode = member.mode & 0o777 | (0o700 if member.isdir() else 0o600)
    return changed(member, name=str(path), linkname=linked, mode=mode, uid=0, gid=0, uname="", gname="")


def _below(name: str, links: set[PurePosixPath]) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ExecutorError(f"the archive is refused: {short(name)} leads outside of it")
    path = PurePosixPath(*path.parts[1:])
    if any(parent in links for parent in path.parents):
        raise ExecutorError(f"the archive is refused: {short(name)} goes through a link")
    return path


def _open(chunks: Iterable[bytes]) -> tarfile.TarFile:
    """With large pieces: the library's usual ones make large files slow."""
    stream = io.BufferedReader(_Stream(chunks), CHUNK)
    archive = tarfile.open(fileobj=stream, mode="r|", bufsize=CHUNK)  # noqa: SIM115 (the caller closes it)
    archive.copybufsize = CHUNK  # type: ignore[attr-defined]
    return archive


class _Stream(io.RawIOBase):
    """Chunks as a file that can only be read on."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
