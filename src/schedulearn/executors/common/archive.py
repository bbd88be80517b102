"""Folders as tar streams, in both directions. What a job wrote is never trusted: no link is followed on either way."""

import io
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from schedulearn.archive.confined import MOST_FETCHED, Owner, unpack_fetched
from schedulearn.archive.pack import CHUNK, END, header, header_bytes, pack_found, padding
from schedulearn.archive.reader import (
    FILE,
    FOLDER,
    HARD_LINK,
    LINK,
    SPECIAL,
    Damaged,
    Member,
    Reader,
    Refused,
    TooLarge,
)
from schedulearn.archive.rules import Readable
from schedulearn.archive.walk import Tree
from schedulearn.core.domain.errors import ExecutorError

_TYPES = {FILE: tarfile.REGTYPE, FOLDER: tarfile.DIRTYPE, LINK: tarfile.SYMTYPE, HARD_LINK: tarfile.LNKTYPE}


class TooMuch(ExecutorError):
    """More bytes or files than are taken: trying again would change nothing."""


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
        told = header(entry.name, entry.mode, owner)
        if entry.content is not None:
            told.size = len(entry.content)
            yield header_bytes(told) + entry.content + padding(told.size)
        else:
            told.type = tarfile.DIRTYPE
            yield header_bytes(told)
            if entry.source is not None:
                yield from _pack_folder(entry.source, PurePosixPath(entry.name), owner)
    yield END


def _pack_folder(folder: Path, name: PurePosixPath, owner: tuple[int, int]) -> Iterator[bytes]:
    size = 0
    with _words(), Tree(folder) as tree:
        for found in tree.below():
            size += found.info.st_size if found.is_file else 0
            if size > MOST_FETCHED:  # with holes, most likely: it would not come back either
                raise TooLarge(f"the files in {folder.name} are larger than {MOST_FETCHED} bytes")
            yield from pack_found(found, str(name.joinpath(*found.parts)), owner)


# --- the other way


def unpack(
    chunks: Iterable[bytes], folder: Path, owner: Owner, most: int = MOST_FETCHED, reader: Owner = None
) -> float:
    """The content of the one folder that an archive holds; returns the newest time of change in it.

    It is done by a child that is the owner. The folder is empty, in one that only the service may enter.
    ExecutorError if a member would lie outside, or behind a link; TooMuch if there is more than `most` bytes.
    `reader`: what this user could not read, where the archive was made, is left out.
    """
    with _words():
        return unpack_fetched(chunks, folder, owner, most, reader)


def moved(
    chunks: Iterable[bytes],
    place: str,
    user: Owner = None,
    keep: Callable[[Member], bool] = lambda _: True,
    last: bool = True,
) -> Iterator[bytes]:
    """The same archive with `place` instead of the name of the file or folder that it holds; special files left out.

    And so is what this user could not read, and what is not to be kept. Not `last`: more members will follow.
    """
    with _words():
        reader, readable = _reader(chunks), Readable(*user) if user else None
        for member in reader:
            if member.kind is SPECIAL or (readable and not readable(member)) or not keep(member):
                continue
            yield header_bytes(_renamed(member, place))
            while chunk := reader.read(CHUNK):
                yield chunk
            yield padding(member.size)
    if last:
        yield END


def _renamed(member: Member, place: str) -> tarfile.TarInfo:
    told = header(_placed(member.name, place), member.mode & 0o777, (0, 0), member.mtime)
    told.type, told.size = _TYPES[member.kind], member.size
    told.linkname = _placed(member.target, place) if member.kind is HARD_LINK else member.target
    return told


def _placed(name: str, place: str) -> str:
    return str(PurePosixPath(place, *PurePosixPath(name).parts[1:]))


def read_file(chunks: Iterable[bytes], largest: int) -> bytes:
    """The one file that an archive holds; b"" if it is none, or too large."""
    with _words():
        reader = _reader(chunks)
        member = next(iter(reader), None)
        if member is None or member.kind is not FILE or member.size > largest:
            return b""
        return b"".join(iter(lambda: reader.read(CHUNK), b""))


@contextmanager
def _words() -> Iterator[None]:
    """What is wrong with an archive, or with a folder that is to become one, in the words of an executor."""
    try:
        yield
    except Damaged as error:
        raise ExecutorError(f"the archive is damaged: {error}") from error
    except Refused as error:
        raise ExecutorError(f"the archive is refused: {error}") from error
    except TooLarge as error:
        raise TooMuch(f"there is too much: {error}") from error


def _reader(chunks: Iterable[bytes]) -> Reader:
    return Reader(io.BufferedReader(_Stream(chunks), CHUNK))


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
