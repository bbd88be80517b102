"""The store as one class, and how it is opened."""

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import exc

from schedulearn.core.domain.errors import StoreError
from schedulearn.store.accounts import Accounts
from schedulearn.store.audit import Audit
from schedulearn.store.cycles import Cycles
from schedulearn.store.engine import Database, is_sqlite
from schedulearn.store.fleet import Fleet
from schedulearn.store.history import History
from schedulearn.store.jobs import Jobs
from schedulearn.store.metrics import Metrics
from schedulearn.store.notices import Notices
from schedulearn.store.roles import Roles
from schedulearn.store.schema import prepare
from schedulearn.store.settings import Settings
from schedulearn.store.spans import Spans
from schedulearn.store.submissions import Submissions
from schedulearn.store.upkeep import Upkeep
from schedulearn.store.uploads import Uploads
from schedulearn.store.usages import Usages


class Store(
    Jobs, Cycles, Fleet, History, Spans, Metrics, Usages, Roles, Accounts, Settings, Notices, Upkeep,
    Uploads, Submissions, Audit,
):  # fmt: skip
    """All that is kept. Each method is its own short transaction; any thread may call any of them.

    StoreAway if the database cannot be used at present, another StoreError if it never can, CorruptDatabase if it is
    damaged, Conflict if it refuses a row.
    """

    def hurried(self, seconds: float) -> "Store":
        """The same store for callers that wait at most so long for others to write; then it is StoreAway."""
        return Store(self._db.hurried(seconds))

    def probe(self) -> None:
        """StoreAway unless it could be written to now. Nothing is changed."""
        self._db.probe()

    def lost_for(self) -> float:
        """For how many seconds it has not been usable; 0: it is, as far as is known. Never waits."""
        return self._db.condition.lost_for()

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_store(url: str | Path) -> Store:
    """The store in a SQLite file (a path) or a PostgreSQL database (postgresql://…), created or upgraded as needed.

    NewerDatabase or CorruptDatabase if it is not for us (then nothing was changed), StoreError if it cannot be used.
    """
    try:
        database = Database(_parse(url))
    except ModuleNotFoundError as error:
        raise StoreError(f"PostgreSQL needs the package {error.name}: pip install 'schedulearn[postgres]'") from error
    try:
        prepare(database)
    except BaseException:
        database.close()
        raise
    return Store(database)


def _parse(url: str | Path) -> sa.URL:
    if isinstance(url, Path) or "://" not in url:
        return sa.URL.create("sqlite", database=str(Path(url).absolute()))
    try:
        parsed = sa.make_url(url)
    except exc.ArgumentError as error:
        raise StoreError(
            "the database's address cannot be understood; write postgresql://user:password@host/name"
        ) from error
    if is_sqlite(parsed) and parsed.database:
        return sa.URL.create("sqlite", database=str(Path(parsed.database).absolute()))
    if parsed.get_backend_name() == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    raise StoreError(f"{parsed.drivername} databases are not supported: SQLite (a path) and postgresql://… are")
