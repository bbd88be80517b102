"""The data folder as one file, and back."""

import gzip
import json
import shutil
import tarfile
import tempfile
import time
import zlib
from pathlib import Path
from typing import IO, cast

from schedulearn import __version__
from schedulearn.domain.errors import Conflict, NotFound, RoleTaken, SchedulearnError
from schedulearn.service.config import DataFolder
from schedulearn.service.roles import RoleLock
from schedulearn.store import open_store

_NOTE = "backup.json"
_CHUNK = 1 << 20
_LEFT_OUT = {"schedulearn.db", "schedulearn.db-wal", "schedulearn.db-shm", "service.json", "nudge.sock", "beside.sock"}
_CLAIM = "claim"  # says which process runs a worker here; a restored folder has no claim to it


def backup(data: Path, to: Path) -> None:
    """Everything but logs being written this instant is consistent: the database is copied online."""
    folder = DataFolder(data)
    if not folder.database.exists():
        raise NotFound(f"there is no Schedulearn database in {data}")
    to.parent.mkdir(parents=True, exist_ok=True)
    partial = to.with_name(to.name + ".partial")
    try:
        with tempfile.TemporaryDirectory(dir=to.parent) as temporary, tarfile.open(partial, "w:gz") as tar:
            copy = Path(temporary, "schedulearn.db")
            store = open_store(folder.database)
            try:
                store.backup(copy)
            finally:
                store.close()
            note = Path(temporary, _NOTE)
            note.write_text(json.dumps({"version": __version__, "at": time.time()}))
            tar.add(note, _NOTE)
            tar.add(copy, "schedulearn.db")
            for entry in sorted(data.iterdir()):
                if entry not in (partial, Path(temporary)):
                    _add(tar, entry, entry.name)
        partial.chmod(0o600)  # it holds the administrator's token
        partial.replace(to)
    finally:
        partial.unlink(missing_ok=True)


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    """Add a file or a whole folder. Jobs go on meanwhile: what has just vanished is left out."""
    if name in _LEFT_OUT or path.name.endswith(".lock") or (name.startswith("jobs/") and path.name == _CLAIM):
        return
    try:
        info = cast(tarfile.TarInfo | None, tar.gettarinfo(path, name))  # None: neither file, folder nor link
        entries = sorted(path.iterdir()) if info and info.isdir() else []
        file = open(path, "rb") if info and info.isreg() else None  # noqa: SIM115 # closed below
    except FileNotFoundError:
        return
    if info is None:
        return
    if file is None:
        tar.addfile(info)
    else:
        with file:
            tar.addfile(info, cast(IO[bytes], _Padded(file)))
    for entry in entries:
        _add(tar, entry, f"{name}/{entry.name}")


class _Padded:
    """A file that gives as many bytes as were promised, with zeros at the end if it has shrunk meanwhile."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        return self._file.read(size).ljust(size, b"\0")


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
        shutil.rmtree(temporary, ignore_errors=True)


def _unpack(file: Path, to: Path) -> None:
    try:
        with gzip.open(file) as unpacked, tarfile.open(fileobj=unpacked, mode="r:") as tar:
            names = tar.getnames()
            if _NOTE not in names or "schedulearn.db" not in names:
                raise SchedulearnError(f"{file} is not a backup made by `schedulearn backup`")
            if any(name.startswith("/") or ".." in name.split("/") for name in names):
                raise SchedulearnError(f"{file} holds files that would lie outside of the data folder")
            # Job folders may hold links to anywhere; they are put back as they were, never followed.
            tar.extraction_filter = getattr(tarfile, "tar_filter", None)  # Python has it since 3.11.4
            tar.extractall(to)
            while unpacked.read(_CHUNK):  # the checksum stands at the very end
                pass
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise SchedulearnError(f"{file} cannot be read as a backup: {error}") from error


def _must_not_run(data: Path) -> None:
    for role in ("scheduler", "api"):
        lock = RoleLock(DataFolder(data), role)
        try:
            lock.acquire()
        except RoleTaken as error:
            raise Conflict(f"the service is running: {error}") from error
        lock.release()
