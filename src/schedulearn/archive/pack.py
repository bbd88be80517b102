"""What a walk finds, as the bytes of a tar archive."""

import os
import stat
import tarfile
from collections.abc import Iterator
from typing import IO

from schedulearn.archive.walk import Found

CHUNK = 1 << 18
END = bytes(2 * tarfile.BLOCKSIZE)
Owner = tuple[int, int]


def pack_found(found: Found, name: str, owner: Owner = (0, 0)) -> Iterator[bytes]:
    """Under another name. Nothing at all of sockets, pipes and devices, and of what has gone meanwhile."""
    mode = stat.S_IMODE(found.info.st_mode) & 0o777
    told = header(name, mode, owner, found.info.st_mtime)
    if found.is_folder:
        told.type = tarfile.DIRTYPE
        yield header_bytes(told)
    elif found.is_link:
        told.type, told.linkname = tarfile.SYMTYPE, found.target()
        if told.linkname:
            yield header_bytes(told)
    elif found.is_file:
        opened = found.open()
        if opened is not None:
            with os.fdopen(opened, "rb", buffering=0) as file:
                yield from _file(file, told)


def header(name: str, mode: int, owner: Owner, mtime: float = 0) -> tarfile.TarInfo:
    told = tarfile.TarInfo(name)
    told.mode, told.mtime = mode, int(mtime)
    told.uid, told.gid = owner
    return told


def header_bytes(told: tarfile.TarInfo) -> bytes:
    return told.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def padding(size: int) -> bytes:
    return bytes(-size % tarfile.BLOCKSIZE)


def _file(file: IO[bytes], told: tarfile.TarInfo) -> Iterator[bytes]:
    told.size = left = os.fstat(file.fileno()).st_size
    yield header_bytes(told)
    while left:
        # A file that shrinks meanwhile is filled up with zeros: the header has promised its size.
        chunk = file.read(min(CHUNK, left)) or bytes(min(CHUNK, left))
        left -= len(chunk)
        yield chunk
    yield padding(told.size)
