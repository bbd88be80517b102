"""The data folder as one file, and back."""

import gzip
import json
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from schedulearn import __version__
from schedulearn.archive.confined import MOST_FETCHED
from schedulearn.archive.extract import OPEN_FOLDER, Extractor
from schedulearn.archive.gunzip import Gunzip
from schedulearn.archive.pack import END, header, header_bytes, pack_found, padding
from schedulearn.archive.reader import FOLDER, HARD_LINK, SPECIAL, BadArchive, Reader, inside
from schedulearn.archive.remove import remove_tree
from schedulearn.archive.walk import Found, Tree
from schedulearn.core.domain.errors import Conflict, NotFound, RoleTaken, SchedulearnError
from schedulearn.service.common.config import DataFolder
from schedulearn.service.common.roles import RoleLock
from schedulearn.store import open_store

_LOG = logging.getLogger(__name__)
_NOTE, _DATABASE = "backup.json", "schedulearn.db"
_LEFT_OUT = {_DATABASE, f"{_DATABASE}-wal", f"{_DATABASE}-shm", "service.json", "nudge.sock", "beside.sock", "reserve"}
_CLAIM = "claim"  # says which process runs a worker here; a restored folder has no claim to it
_OWN = ".backup-"  # how folders begin that a backup makes for itself


def backup(data: Path, to: Path) -> None:
    """Everything but logs being written this instant is consistent: the database is copied online."""
    folder = DataFolder(data)
    if not folder.database.exists():
        raise NotFound(f"there is no Schedulearn database in {data}")
    to.parent.mkdir(parents=True, exist_ok=True)
    # The copy lies where only the service can change names, and `to` may not be such a place.
    with tempfile.TemporaryDirectory(prefix=_OWN, dir=data) as temporary, _replaced(to) as file:
        store = open_store(folder.database)
        try:
            store.backup(Path(temporary, _DATABASE))
        finally:
            store.close()
        with gzip.GzipFile(filename="", mode="wb", fileobj=file) as packed:
            packed.write(_note())
            for piece in _pieces(data, Path(temporary), os.fstat(file.fileno())):
                packed.write(piece)


@contextmanager
def _replaced(to: Path) -> Iterator[IO[bytes]]:
    """A new file that takes the place of another once it is whole; from its beginning no other user may read it."""
    folder, name = os.open(to.parent, OPEN_FOLDER & ~os.O_NOFOLLOW), f".{to.name}.{os.urandom(8).hex()}"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with open(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
                os.fchmod(file.fileno(), 0o600)
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, to.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(name, dir_fd=folder)
            raise
    finally:
        os.close(folder)


def _note() -> bytes:
    note = json.dumps({"version": __version__, "at": time.time()}).encode()
    told = header(_NOTE, 0o600, (os.geteuid(), os.getegid()), time.time())
    told.size = len(note)
    return header_bytes(told) + note + padding(len(note))


def _pieces(data: Path, copy: Path, itself: os.stat_result) -> Iterator[bytes]:
    """Jobs go on meanwhile: what has just vanished is left out, and no link is followed."""
    with Tree(copy, anyones=True) as tree:
        for found in tree.below():
            yield from pack_found(found, found.parts[-1], (found.info.st_uid, found.info.st_gid))
    with Tree(data, anyones=True) as tree:
        for found in tree.below(strict=False):
            if not _left_out(found) and not os.path.samestat(found.info, itself):
                yield from pack_found(found, "/".join(found.parts), (found.info.st_uid, found.info.st_gid))
    yield END


def _left_out(found: Found) -> bool:
    parts = found.parts
    if found.is_file and found.info.st_size > MOST_FETCHED:  # nearly all of it holes
        _LOG.warning("%s is not in the backup: it is larger than any file that is brought back", "/".join(parts))
        return True
    at_top = parts[0].startswith(_OWN) or (len(parts) == 1 and parts[0] in _LEFT_OUT)
    return at_top or parts[-1].endswith(".lock") or (parts[0] == "jobs" and parts[-1] == _CLAIM)


def restore(file: Path, data: Path) -> None:
    """Put a backup into an empty (or new) data folder, whole or not at all."""
    if data.exists() and any(data.iterdir()):
        _must_not_run(data)
        raise Conflict(f"{data} is not empty: choose a new folder, or move the old one away first")
    if not file.is_file():
        raise NotFound(f"there is no file {file}")
    data.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".restore-", dir=data.parent))
    try:
        _unpack(file, temporary)
        store = open_store(temporary / "schedulearn.db")
        problems = store.integrity_check()
        store.close()
        if problems:
            raise SchedulearnError(f"the database in {file} is damaged: {problems[0]}")
        if data.exists():
            data.rmdir()
        temporary.replace(data)
    finally:
        remove_tree(temporary)


def _unpack(file: Path, to: Path) -> None:
    """Job folders may hold links to anywhere: they are put back as they were, and never followed."""
    folder = os.open(to, OPEN_FOLDER)
    try:
        with open(file, "rb") as source, Extractor(folder, owners=os.geteuid() == 0) as extractor:
            reader, names = Reader(Gunzip(source)), list[str]()
            for member in reader:
                names += [member.name] if len(names) < 2 else []
                if names != [_NOTE, _DATABASE][: len(names)]:
                    raise SchedulearnError(f"{file} is not a backup made by `schedulearn backup`")
                target = inside(member.target) if member.kind is HARD_LINK else ()
                mode = member.mode & 0o755 | (0o700 if member.kind is FOLDER else 0o600)
                if member.kind is not SPECIAL:
                    extractor.add(member, inside(member.name), target, mode, reader.read)
            reader.drain()  # the checksum stands at the very end
            if len(names) < 2:
                raise SchedulearnError(f"{file} is not a backup made by `schedulearn backup`")
    except (BadArchive, OSError) as error:
        raise SchedulearnError(f"{file} cannot be read as a backup: {error}") from error
    finally:
        os.close(folder)


def _must_not_run(data: Path) -> None:
    for role in ("scheduler", "api"):
        try:
            with RoleLock(DataFolder(data), role):
                pass
        except RoleTaken as error:
            raise Conflict(f"the service is running: {error}") from error
