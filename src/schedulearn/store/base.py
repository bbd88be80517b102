"""What the parts of the store share."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import sqlalchemy as sa

from schedulearn.core.domain.ids import WorkerId
from schedulearn.store.codec import made
from schedulearn.store.engine import Database

T = TypeVar("T")
_AT_ONCE = 5000  # ids in one statement: databases limit how many parameters it may have


class Part:
    """A part of the store: some methods on one database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def _all(self, kind: type[T], query: sa.Select[Any]) -> list[T]:
        """What the rows say, where each field has a column of its name."""
        with self._db.read() as connection:
            return [made(kind, row) for row in connection.execute(query)]


def in_chunks(ids: Iterable[T], size: int = _AT_ONCE) -> Iterator[list[T]]:
    whole = list(ids)
    for start in range(0, len(whole), size):
        yield whole[start : start + size]


def count(connection: sa.Connection, source: sa.FromClause, *wanted: sa.ColumnElement[bool]) -> int:
    """How many rows there are."""
    return connection.execute(sa.select(sa.func.count()).select_from(source).where(*wanted)).scalar_one()


def of_worker(table: sa.Table, worker: WorkerId) -> sa.ColumnElement[bool]:
    """The rows of one worker."""
    return sa.and_(*(table.c[name] == value for name, value in worker._asdict().items()))


def same_worker(one: sa.Table, other: sa.Table) -> sa.ColumnElement[bool]:
    """To join two tables that have rows of workers."""
    return sa.and_(*(one.c[name] == other.c[name] for name in WorkerId._fields))
