"""Connections and transactions: one writer at a time on both databases, and errors in the store's own words."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from copy import copy
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from schedulearn.core.domain.errors import Conflict, CorruptDatabase, StoreAway, StoreError
from schedulearn.store.condition import Access, Condition
from schedulearn.store.stalls import HasSocket, StallGuard

_BUSY_SECONDS = 30.0
_LEAST_WAIT = 0.5  # seconds, also of hurried callers while the database has been away for long
_ANSWERS = 5.0  # seconds within which a healthy PostgreSQL takes a connection, or shows that one is good
_LONGEST_HURRIED = 20.0  # seconds for one transaction of a hurried caller, if PostgreSQL stalls in the middle
# The other machine may have gone without a word: its end of a connection is asked after.
_KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000}
# What a connection remembers: for how many seconds it may wait for the lock, and what SQLite was told of that.
_WAIT, _SET = "schedulearn_wait", "schedulearn_wait_set"
_WRITER_LOCK = 0x5C4ED  # our key among PostgreSQL's advisory locks
_WRITES = "schedulearn_writes"
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class Database:
    """An engine, and the two ways to use it. Thread-safe."""

    def __init__(self, url: sa.URL) -> None:
        self.url = url
        self.path = Path(url.database) if is_sqlite(url) and url.database else None
        self.place = str(self.path) if self.path else url.render_as_string(hide_password=True)
        self._stalls = None if self.path else StallGuard()
        self.engine = _postgresql_engine(url, self._stalls) if self._stalls else _sqlite_engine(url)
        self._writer = self.engine.execution_options(**{_WRITES: True})
        # SQLite's transactions all see one state; PostgreSQL's must be told to.
        self._reader = self.engine if self.path else self.engine.execution_options(isolation_level="REPEATABLE READ")
        # Waiting here is fair and wakes at once; SQLite's own busy handler sleeps and tries again.
        self._turn = threading.Lock() if self.path else None
        self._patience: float | None = None  # seconds to wait for others; None: as long as it takes
        self.condition = Condition(self.place)

    def hurried(self, seconds: float) -> "Database":
        """The same, for callers that would rather be told that it cannot be used than wait for it any longer."""
        other = copy(self)
        other._patience = seconds
        return other

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """One consistent look."""
        with self._in_our_words(Access.READ), self._begun(self._reader, Access.READ, self._until()) as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """One transaction; no other writes at the same time, so what it reads stays true until it commits.

        It also makes serial numbers appear in their order, which readers that follow the log by serial rely on.
        """
        with self._in_our_words(Access.WRITE), self._writing() as connection:
            yield connection

    def probe(self) -> None:
        """StoreAway unless a transaction that writes can begin now."""
        with self._writing():
            pass

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        until = self._until()
        with self._own_turn(until), self._begun(self._writer, Access.WRITE, until) as connection:
            yield connection

    def _until(self) -> float | None:
        """While it has been away for long already, no caller waits long: threads are needed for what can be served."""
        if self._patience is None:
            return None
        return time.monotonic() + max(_LEAST_WAIT, self._patience - self.condition.lost_for())

    @contextmanager
    def _own_turn(self, until: float | None) -> Iterator[None]:
        if self._turn is None:
            yield
            return
        if not self._turn.acquire(timeout=-1 if until is None else max(0.0, until - time.monotonic())):
            raise StoreAway(f"the database {self.place} is busy: others have been waiting to write for long")
        try:
            yield
        finally:
            self._turn.release()

    @contextmanager
    def _begun(self, engine: sa.Engine, access: Access, until: float | None) -> Iterator[sa.Connection]:
        with ExitStack() as stack:
            with self._in_our_words(min(access, Access.BEGIN)), self.condition.waiting():
                connection = stack.enter_context(engine.connect())
                connection.info[_WAIT] = None if until is None else max(0.0, until - time.monotonic())
                if self._stalls and self._patience is not None:
                    stack.enter_context(self._stalls.within(_driver(connection), _LONGEST_HURRIED))
                stack.enter_context(connection.begin())
            yield connection

    def upsert(self, table: sa.Table) -> sa.Insert:
        """Insert a row, or update the one with the same primary key."""
        return _upsert(self.engine.dialect.name, table)

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
    def _in_our_words(self, access: Access) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        except exc.IntegrityError as error:
            raise Conflict(f"the database refuses it: {error.orig}") from error
        except (exc.OperationalError, exc.InterfaceError, exc.TimeoutError) as error:
            problem = self.translate(getattr(error, "orig", error), StoreAway)
            self.condition.failed(access, str(problem), began)
            raise problem from error
        except exc.DBAPIError as error:
            raise self.translate(error.orig) from error
        self.condition.worked(access)

    def translate(self, error: BaseException | None, kind: type[StoreError] = StoreError) -> StoreError:
        """The store's error for one of the driver's."""
        if isinstance(error, sqlite3.Error) and (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _CORRUPT:
            return self.damaged(str(error))
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
            return kind(
                f"the disk is full on which the database {self.place} lies: nothing can be written down; "
                "delete jobs (schedulearn rm) or other files there"
            )
        return kind(f"the database {self.place} cannot be used: {str(error).strip()}")

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
        wait = connection.info.pop(_WAIT, None)
        if connection.info.get(_SET) != wait:
            seconds = _BUSY_SECONDS if wait is None else wait
            connection.exec_driver_sql(f"PRAGMA busy_timeout={round(seconds * 1000)}")
            connection.info[_SET] = wait
        # IMMEDIATE: a transaction that reads first and writes later could otherwise fail half-way as "busy".
        writes = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _postgresql_engine(url: sa.URL, stalls: StallGuard) -> sa.Engine:
    usual = {"connect_timeout": round(_ANSWERS), **_KEEPALIVE}
    chosen = {name: value for name, value in usual.items() if name not in url.query}
    engine = sa.create_engine(url, connect_args=chosen, pool_size=8, max_overflow=32)

    @sa.event.listens_for(engine, "connect")
    def _set_up(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        """What was answered as done must outlive a crash of the server, also where its administrator prefers speed."""
        cursor = connection.cursor()
        cursor.execute(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
        cursor.close()
        connection.commit()

    @sa.event.listens_for(engine, "checkout")
    def _check(connection: DBAPIConnection, *_: object) -> None:
        """As `pool_pre_ping` would, which waits without end for a server that has stopped."""
        try:
            with stalls.within(cast(HasSocket, connection), _ANSWERS):
                engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise exc.DisconnectionError from error

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        if connection.get_execution_options().get(_WRITES):
            if (wait := connection.info.pop(_WAIT, None)) is not None:
                # At least 1: 0 would mean without end.
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = {max(1, round(wait * 1000))}")
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITER_LOCK})")

    return engine


def _driver(connection: sa.Connection) -> HasSocket:
    return cast(HasSocket, connection.connection.dbapi_connection)


@cache
def _upsert(dialect: str, table: sa.Table) -> sa.Insert:
    # The two dialects' inserts are alike but share no type that knows of conflicts. Only the one in use is loaded.
    insert: Any = import_module(f"sqlalchemy.dialects.{dialect}").insert(table)
    keys = [column.name for column in table.primary_key]
    # Columns with a default of the database's are not given by the caller and must not be reset.
    others = [c.name for c in table.columns if c.name not in keys and c.server_default is None]
    new = {name: insert.excluded[name] for name in others}
    statement: sa.Insert = insert.on_conflict_do_update(index_elements=keys, set_=new)
    return statement
