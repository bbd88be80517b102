"""Brings a database to the present schema, or says why it cannot be used.

A new one is made as the tables are declared, and says so to Alembic, which is loaded only where there is an older one.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import exc

from schedulearn.core.domain.errors import Conflict, CorruptDatabase, NewerDatabase, StoreError
from schedulearn.store.engine import Database
from schedulearn.store.tables import metadata

HEAD = "0010"  # the newest step in migrations/versions: their names are numbers, and later ones are greater
_MIGRATIONS = Path(__file__).parent / "migrations"
_VERSION = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32)),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
_QUICK_CHECK_BELOW = 32 * 1024**2  # bytes: below this a look at every page does not delay the start


def prepare(database: Database) -> None:
    """Check the database; create the tables or migrate them. Nothing is changed if it cannot be used."""
    if database.path:
        _look_at_file(database, database.path)
    with database.read() as connection:
        version = _version(connection, database.place)
    if database.path:
        _use_wal(database)
    if version is None:
        _create(database)
    elif version != HEAD:
        migrate(database)


def _look_at_file(database: Database, path: Path) -> None:
    """What can be said of a SQLite file before it is used."""
    if not path.parent.is_dir():
        raise StoreError(f"the database {path} cannot be opened: there is no folder {path.parent}")
    if path.exists() and not path.is_file():
        raise StoreError(f"the database {path} cannot be opened: it is not a file")
    try:
        # Specs hold people's secrets: nobody else may read the file. SQLite's side files take over its mode.
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


def _version(connection: sa.Connection, place: str) -> str | None:
    """The schema's version; None for an empty database."""
    names = set(sa.inspect(connection).get_table_names())
    if "alembic_version" not in names:
        if names:
            raise CorruptDatabase(f"{place} is no database of Schedulearn: it has other tables; name an empty one")
        return None
    version = connection.execute(sa.select(_VERSION.c.version_num)).scalar()
    if version is None:
        raise CorruptDatabase(f"{place} does not say which version of Schedulearn made it")
    if not version.isdigit() or int(version) > int(HEAD):
        raise NewerDatabase(
            f"{place} was written by a newer version of Schedulearn (schema {version}, this one knows up to {HEAD}); "
            "install the newer version, or use another data folder"
        )
    return str(version)


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
    with _in_one_go(database) as connection:
        if _version(connection, database.place) is None:  # else another process did it while we waited for our turn
            metadata.create_all(connection)
            _VERSION.create(connection)
            connection.execute(sa.insert(_VERSION), {"version_num": HEAD})


def migrate(database: Database) -> None:
    """Step by step, from any version or from nothing."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    with _in_one_go(database) as connection:
        if _version(connection, database.place) != HEAD:  # else, again, another process did it
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


@contextmanager
def _in_one_go(database: Database) -> Iterator[sa.Connection]:
    """All of it or nothing."""
    try:
        with database.write() as connection:
            yield connection
    except (exc.SQLAlchemyError, Conflict) as error:
        raise StoreError(f"the database {database.place} could not be brought to schema {HEAD}: {error}") from error
