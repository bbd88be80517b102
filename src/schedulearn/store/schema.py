"""Brings a database to the present schema, or says why it cannot be used.

A new one is made as the tables are declared; an older one takes the steps of `upgrades.py`.
"""

import os
import sqlite3
import time
from pathlib import Path

import sqlalchemy as sa

from schedulearn.core.domain.errors import CorruptDatabase, NewerDatabase, StoreError
from schedulearn.store.engine import Database
from schedulearn.store.tables import metadata
from schedulearn.store.upgrades import STEPS

_VERSION = sa.Table("schema_version", sa.MetaData(), sa.Column("version", sa.Integer, nullable=False))
_BEFORE_THE_FIRST = "alembic_version"  # a table that all databases had before the first version
_QUICK_CHECK_BELOW = 32 * 1024**2  # bytes: below this a look at every page does not delay the start


def prepare(database: Database) -> None:
    """Check the database; create the tables or upgrade them. Nothing is changed if it cannot be used."""
    if database.path:
        _look_at_file(database, database.path)
    with database.read() as connection:
        version = _version(connection, database.place)
    if database.path:
        _use_wal(database)
    if version is None:
        _create(database)
    elif version < head():
        _upgrade(database)


def head() -> int:
    """The version of the tables as they are declared."""
    return 1 + len(STEPS)


def _look_at_file(database: Database, path: Path) -> None:
    """What can be said of a SQLite file before it is used."""
    if not path.parent.is_dir():
        raise StoreError(f"the database {path} cannot be opened: there is no folder {path.parent}")
    if path.exists() and not path.is_file():
        raise StoreError(f"the database {path} cannot be opened: it is not a file")
    try:
        # Specs hold users' secrets: no other user may read the file. SQLite's side files take over its mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreError(f"the database {path} cannot be opened for writing: {error.strerror}") from error
    if not os.access(path.parent, os.W_OK, effective_ids=True):
        raise StoreError(f"the database {path} cannot be used: the folder {path.parent} is read-only")
    if 0 < path.stat().st_size <= _QUICK_CHECK_BELOW:
        with database.read() as connection:
            problem = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
        if problem != "ok":
            raise database.damaged(str(problem))


def _version(connection: sa.Connection, place: str) -> int | None:
    """The schema's version; None for an empty database."""
    names = set(sa.inspect(connection).get_table_names())
    if not names:
        return None
    if _BEFORE_THE_FIRST in names:
        raise StoreError(
            f"{place} was written before the first version of Schedulearn, which cannot read it; nothing was changed: "
            "start with a new data folder, or export what you need with the version that wrote it"
        )
    if _VERSION.name not in names:
        raise CorruptDatabase(f"{place} is no database of Schedulearn: it has other tables; name an empty one")
    version = connection.execute(sa.select(_VERSION.c.version)).scalar()
    if version is None:
        raise CorruptDatabase(f"{place} does not say which version of Schedulearn made it")
    if version > head():
        raise NewerDatabase(
            f"{place} was written by a newer version of Schedulearn (schema {version}, this one knows up to {head()}); "
            "install the newer version, or use another data folder"
        )
    return int(version)


def _use_wal(database: Database) -> None:
    """Readers and the writer then do not wait for each other. The file remembers it."""
    deadline = time.monotonic() + 30
    while True:
        connection = database.engine.raw_connection()
        try:
            connection.cursor().execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            # Two processes that open a new file at once: SQLite does not wait by itself here.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise database.translate(error) from error
            time.sleep(0.02)
        finally:
            connection.close()


def _create(database: Database) -> None:
    with database.write() as connection:
        if _version(connection, database.place) is None:  # else another process did it while we waited for our turn
            metadata.create_all(connection)
            _VERSION.create(connection)
            connection.execute(sa.insert(_VERSION), {"version": head()})


def _upgrade(database: Database) -> None:
    with database.write() as connection:
        version = _version(connection, database.place) or 1
        for step in STEPS[version - 1 :]:
            step(connection)
        connection.execute(sa.update(_VERSION).values(version=head()))
