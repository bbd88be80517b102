"""Looking after the database itself."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import text

from schedulearn.core.domain.errors import StoreError
from schedulearn.store.base import Part


class Upkeep(Part):
    def backup(self, to: Path) -> None:
        """Copy the database into one file while it is in use. An older file is replaced only when the copy is whole."""
        if self._db.path is None:
            raise StoreError("a PostgreSQL database is backed up with its own pg_dump")
        part = to.with_name(to.name + ".part")
        try:
            part.unlink(missing_ok=True)
            os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))  # it holds users' secrets
            _copy(self._db.path, part)
            _sync(part)
            part.replace(to)
            _sync(to.parent)
        except (OSError, sqlite3.Error) as error:
            part.unlink(missing_ok=True)
            raise StoreError(f"the backup {to} could not be made: {error}") from error

    def integrity_check(self) -> list[str]:
        """What is wrong with the database, in words; nothing if it is sound."""
        with self._db.read() as connection:
            if self._db.path is None:
                connection.execute(text("SELECT 1"))  # PostgreSQL looks after its pages itself
                return []
            found = [str(row[0]) for row in connection.execute(text("PRAGMA integrity_check"))]
            lost = connection.execute(text("PRAGMA foreign_key_check")).all()
        dangling = [f"a row of {row[0]} refers to a row of {row[2]} that is not there" for row in lost]
        return [problem for problem in found if problem != "ok"] + dangling


def _copy(source: Path, to: Path) -> None:
    with closing(sqlite3.connect(source, timeout=30)) as old, closing(sqlite3.connect(to)) as new:
        old.backup(new)
        new.execute("PRAGMA journal_mode=DELETE")  # one file that is complete in itself


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
