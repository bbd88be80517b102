"""Every test that asks for `store` or `url` runs on SQLite and on a real PostgreSQL that is started here."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from schedulearn.core.domain.ids import AttemptId, DeviceId, NodeName, WorkerId
from schedulearn.core.domain.job import Attempt, Job, Lease, Worker
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.spec import JobSpec
from schedulearn.core.domain.states import JobState
from schedulearn.store import Cycle, Store, open_store
from schedulearn.store.tables import metadata
from support.postgresql import PROGRAMS, PostgreSQL
from support.scratch import tmp_path

__all__ = ["tmp_path"]

_numbers = count(1)
AT = 1_700_000_000.25


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    if PROGRAMS is None:
        pytest.skip("PostgreSQL's programs are not on this machine")
    with PostgreSQL() as server:
        yield server


class _SQLite:
    """Makes database files, empty or as `open_store` makes them (once, then copied: it saves much time)."""

    def __init__(self, folder: Path) -> None:
        self._migrated = folder / "migrated.db"
        open_store(self._migrated).close()

    def create(self, folder: Path, migrated: bool) -> str:
        path = folder / "schedulearn.db"
        if migrated:
            shutil.copy(self._migrated, path)
        return str(path)


class _PostgreSQL:
    """The same on a server. What `open_store` made is emptied and used again: a copy of it would take longer."""

    def __init__(self, server: PostgreSQL) -> None:
        self._server = server
        server.execute("postgres", "CREATE DATABASE migrated")
        open_store(server.url("migrated")).close()

    def create(self, _: Path, migrated: bool) -> str:
        if migrated:
            tables = ", ".join(metadata.tables)
            self._server.execute("migrated", f"TRUNCATE {tables} RESTART IDENTITY CASCADE")
            return self._server.url("migrated")
        name = f"test{next(_numbers)}"
        self._server.execute("postgres", f"CREATE DATABASE {name}")
        return self._server.url(name)


@pytest.fixture(scope="session", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def databases(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> _SQLite | _PostgreSQL:
    if request.param == "sqlite":
        return _SQLite(tmp_path_factory.mktemp("migrated"))
    return _PostgreSQL(request.getfixturevalue("postgresql"))


@pytest.fixture
def url(request: pytest.FixtureRequest, databases: _SQLite | _PostgreSQL, tmp_path: Path) -> str:
    """The address of a database of the test's own; it is still empty if the test opens the store itself."""
    return databases.create(tmp_path, migrated="store" in request.fixturenames)


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with open_store(url) as opened:
        yield opened


@pytest.fixture
def fence(store: Store) -> int:
    """The number of a scheduler that may write cycles."""
    return store.take_role("scheduler", "test", AT, 3600)


class Maker:
    """Makes what tests need, in one line."""

    def __init__(self, store: Store, fence: int) -> None:
        self.store, self.fence = store, fence

    def job(self, name: str = "mnist", user: str = "ann", at: float = AT, **spec: Any) -> Job:
        """A job that was submitted."""
        id = self.store.add_job(JobSpec(name, "python train.py", **spec), user, at, f"submitted by {user}")
        row = self.store.job(id)
        assert row is not None
        return row.job

    def running(self, *devices: str, workers: int = 1, **spec: Any) -> Job:
        """A job with an attempt and leases; the first worker has the devices."""
        job = self.job(**spec)
        job.state, job.attempt, job.started_at = JobState.RUNNING, job.attempt + 1, AT + 1
        attempt = self.attempt(job, workers)
        leases = [self.lease(w.id, *(devices if w.id.rank == 0 else ())) for w in attempt.workers]
        self.save(jobs=[job], attempts=[attempt], leases_added=leases)
        return job

    def attempt(self, job: Job, workers: int = 1) -> Attempt:
        ids = [WorkerId(job.id, job.attempt, rank) for rank in range(workers)]
        return Attempt(AttemptId(job.id, job.attempt), AT, [Worker(id, NodeName("local")) for id in ids])

    def lease(self, worker: WorkerId, *devices: str) -> Lease:
        return Lease(worker, NodeName("local"), Resources(cpus=1), tuple(DeviceId(d) for d in devices))

    def finished(self, state: JobState = JobState.SUCCEEDED, **spec: Any) -> Job:
        job = self.job(**spec)
        job.state, job.finished_at = state, AT + 10
        self.save(jobs=[job])
        return job

    def save(self, **changes: Any) -> None:
        self.store.save_cycle(Cycle(self.fence, **changes))


@pytest.fixture
def make(store: Store, fence: int) -> Maker:
    return Maker(store, fence)


@pytest.fixture
def contents(url: str) -> Callable[[], dict[str, list[Any]]]:
    """All rows of all tables, seen from outside of the store."""
    return lambda: read_all(url)


def read_all(url: str) -> dict[str, list[Any]]:
    address = url.replace("postgresql:", "postgresql+psycopg:") if "://" in url else f"sqlite:///{url}"
    engine = sa.create_engine(address)
    with engine.connect() as connection:
        tables = metadata.sorted_tables
        rows = {table.name: sorted(map(repr, connection.execute(sa.select(table)))) for table in tables}
    engine.dispose()
    return rows


@pytest.fixture
def statements(store: Store) -> list[str]:
    """The SQL that the store sends from now on; BEGIN and COMMIT are not in it."""
    sent: list[str] = []

    @sa.event.listens_for(store._db.engine, "before_cursor_execute")
    def _note(_c: object, _cursor: object, statement: str, *_rest: object) -> None:
        if not statement.startswith(("BEGIN", "SELECT pg_advisory")):
            sent.append(statement)

    return sent


@pytest.fixture
def run_python() -> Callable[..., "subprocess.Popen[str]"]:
    """Starts Python on a text, with arguments, in a process of its own."""

    def start(code: str, *words: object) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", code, *map(str, words)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start
