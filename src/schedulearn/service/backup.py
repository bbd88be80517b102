"""The data folder as one file, and back."""

import json
import shutil
import tarfile
import tempfile
import time
from pathlib import Path

from schedulearn import __version__
from schedulearn.domain.errors import Conflict, NotFound, RoleTaken, SchedulearnError
from schedulearn.service.config import DataFolder
from schedulearn.service.roles import RoleLock
from schedulearn.store import open_store

_NOTE = "backup.json"
_LEFT_OUT = {"schedulearn.db", "schedulearn.db-wal", "schedulearn.db-shm", "service.json", "nudge.sock"}


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
                if entry.name not in _LEFT_OUT and not entry.name.endswith(".lock"):
                    tar.add(entry, entry.name)
        partial.chmod(0o600)  # it holds the administrator's token
        partial.replace(to)
    finally:
        partial.unlink(missing_ok=True)


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
        with tarfile.open(file, "r:gz") as tar:
            names = tar.getnames()
            if _NOTE not in names or "schedulearn.db" not in names:
                raise SchedulearnError(f"{file} is not a backup made by `schedulearn backup`")
            # Job folders may hold links to anywhere; they are put back as they were, never followed.
            tar.extractall(to, filter="tar")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise SchedulearnError(f"{file} cannot be read as a backup: {error}") from error


def _must_not_run(data: Path) -> None:
    for role in ("scheduler", "api"):
        lock = RoleLock(DataFolder(data), role)
        try:
            lock.acquire()
        except RoleTaken as error:
            raise Conflict(f"the service is running: {error}") from error
        lock.release()
