"""Connections and transactions: one writer at a time on both databases, and errors in the store's own words."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from schedulearn.domain.errors import Conflict, CorruptDatabase, StoreError

_BUSY_SECONDS = 30
_WRITER_LOCK = 0x5C4ED  # our key among PostgreSQL's advisory locks
_WRITES = "schedulearn_writes"
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class Database:
    """An engine, and the two ways to use it. Thread-safe."""

    def __init__(self, url: sa.URL) -> None:
        self.url = url
        self.path = Path(url.database) if is_sqlite(url) and url.database else None
        self.place = str(self.path) if self.path else url.render_as_string(hide_password=True)
        self.engine = _sqlite_engine(url) if self.path else _postgresql_engine(url)
        self._writer = self.engine.execution_options(**{_WRITES: True})
        # SQLite's transactions all see one state; PostgreSQL's must be told to.
        self._reader = self.engine if self.path else self.engine.execution_options(isolation_level="REPEATABLE READ")
        # Waiting here is fair and wakes at once; SQLite's own busy handler sleeps and tries again.
        self._turn: AbstractContextManager[object] = threading.Lock() if self.path else nullcontext()

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """One consistent look."""
        with self._in_our_words(), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """One transaction; no other writes at the same time, so what it reads stays true until it commits.

        It also makes serial numbers appear in their order, which those who follow the log by serial rely on.
        """
        with self._in_our_words(), self._turn, self._writer.begin() as connection:
            yield connection

    def upsert(self, table: sa.Table, fixed: tuple[str, ...] = ()) -> sa.Insert:
        """Insert a row, or update the one with the same primary key in all that is given but the `fixed` columns."""
        return _upsert(self.engine.dialect.name, table, fixed)

    def last_number(self, connection: sa.Connection, table: sa.Table) -> int:
        """The last one that the database gave to a row of this table, whether or not the row is still there."""
        if self.path:
            found = connection.execute(sa.text("SELECT seq FROM sqlite_sequence WHERE name = :t"), {"t": table.name})
        else:
            sequence = f"pg_get_serial_sequence('{table.name}', 'id')"
            found = connection.execute(sa.text(f"SELECT coalesce(pg_sequence_last_value({sequence}), 0)"))
        return int(found.scalar() or 0)

    def set_last_number(self, connection: sa.Connection, table: sa.Table, number: int) -> None:
        values = {"t": table.name, "n": number}
        if self.path:
            connection.execute(sa.text("DELETE FROM sqlite_sequence WHERE name = :t"), values)
            connection.execute(sa.text("INSERT INTO sqlite_sequence (name, seq) VALUES (:t, :n)"), values)
        else:
            connection.execute(sa.text("SELECT setval(pg_get_serial_sequence(:t, 'id'), :n)"), values)

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def _in_our_words(self) -> Iterator[None]:
        try:
            yield
        except exc.IntegrityError as error:
            raise Conflict(f"the database refuses it: {error.orig}") from error
        except exc.DBAPIError as error:
            raise self.translate(error.orig) from error
        except exc.TimeoutError as error:
            raise StoreError(f"the database {self.place} is too busy: {error}") from error

    def translate(self, error: BaseException | None) -> StoreError:
        """The store's error for one of the driver's."""
        if isinstance(error, sqlite3.Error) and (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _CORRUPT:
            return self.damaged(str(error))
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
            return StoreError(
                f"the disk is full on which the database {self.place} lies: nothing can be written down; "
                "delete jobs (schedulearn rm) or other files there"
            )
        return StoreError(f"the database {self.place} cannot be used: {str(error).strip()}")

    def damaged(self, how: str) -> CorruptDatabase:
        return CorruptDatabase(
            f"{self.place} is damaged or is no database of Schedulearn ({how}); "
            "put a backup in its place, or move it away to start anew"
        )


def is_sqlite(url: sa.URL) -> bool:
    return url.get_backend_name() == "sqlite"


def _sqlite_engine(url: sa.URL) -> sa.Engine:
    engine = sa.create_engine(url, connect_args={"timeout": _BUSY_SECONDS}, pool_size=8, max_overflow=32)

    @sa.event.listens_for(engine, "connect")
    def _set_up(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves, below
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        # IMMEDIATE: a transaction that reads first and writes later could otherwise fail half-way as "busy".
        writes = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _postgresql_engine(url: sa.URL) -> sa.Engine:
    engine = sa.create_engine(url, pool_pre_ping=True, pool_size=8, max_overflow=32)

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        if connection.get_execution_options().get(_WRITES):
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITER_LOCK})")

    return engine


@cache
def _upsert(dialect: str, table: sa.Table, fixed: tuple[str, ...]) -> sa.Insert:
    # The two dialects' inserts are alike but share no type that knows of conflicts. Only the one in use is loaded.
    insert: Any = import_module(f"sqlalchemy.dialects.{dialect}").insert(table)
    keys = [column.name for column in table.primary_key]
    # Columns with a default of the database's are not given by the caller and must not be reset.
    others = [c.name for c in table.columns if c.name not in (*keys, *fixed) and c.server_default is None]
    new = {name: insert.excluded[name] for name in others}
    statement: sa.Insert = insert.on_conflict_do_update(index_elements=keys, set_=new)
    return statement
