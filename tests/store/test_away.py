"""A database that is locked, stopped or full: nobody in a hurry waits for it, and the log is told twice."""

import os
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from schedulearn.core.domain.errors import StoreAway
from schedulearn.store import Store, engine, open_store
from schedulearn.store.condition import Access, Condition
from support.postgresql import PostgreSQL
from support.waiting import wait_until

LOST, BACK = "it is tried again", "can be used again"


@contextmanager
def locked(store: Store) -> Iterator[None]:
    """Another program writes."""
    database = store._db
    if database.path:
        other = sqlite3.connect(database.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.rollback()
            other.close()
    else:
        with sa.create_engine(database.url, poolclass=sa.NullPool).connect() as connection:
            connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({engine._WRITER_LOCK})"))
            yield


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [word for record in caplog.records for word in (LOST, BACK) if word in record.getMessage()]


def test_who_is_in_a_hurry_is_told_and_the_log_twice(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    hurried = store.hurried(0.05)
    with locked(store):
        for _ in range(5):
            with pytest.raises(StoreAway):
                hurried.set_setting("a", 1)
            assert hurried.setting("a") is None, "reading goes on"
            assert hurried.lost_for() > 0
    hurried.probe()
    assert hurried.lost_for() == 0
    hurried.set_setting("a", 1)
    assert store.setting("a") == 1
    assert told(caplog) == [LOST, BACK]


def test_a_database_that_lets_others_wait_is_known_without_asking_it(store: Store) -> None:
    with locked(store):
        patient = threading.Thread(target=store.set_setting, args=("a", 1))
        patient.start()
        wait_until(lambda: store.lost_for() > 0)
    patient.join(60)
    assert store.setting("a") == 1, "who is in no hurry waits"
    assert store.lost_for() == 0


READ, BEGIN, WRITE = Access.READ, Access.BEGIN, Access.WRITE


@pytest.mark.parametrize(
    ("deeds", "lines"),
    [
        ([("-", WRITE), ("+", READ), ("+", BEGIN), ("-", WRITE), ("+", WRITE)], [LOST, BACK]),  # a full disk
        ([("-", BEGIN), ("+", READ), ("-", BEGIN), ("+", BEGIN)], [LOST, BACK]),  # locked
        ([("-", READ), ("-", WRITE), ("+", READ), ("+", BEGIN)], [LOST]),  # away, and full when it is back
        ([("-", READ), ("+", READ), ("-", READ), ("+", READ), ("-", READ)], [LOST, BACK]),  # by turns
        ([("+", READ), ("+", WRITE)], []),
    ],
)
def test_what_the_log_is_told(
    deeds: list[tuple[str, Access]], lines: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    condition = Condition("here")
    for sign, deed in deeds:
        if sign == "-":
            condition.failed(deed, "the disk is full", 0.0)
        else:
            condition.worked(deed)
    assert told(caplog) == lines
    assert not any(record.exc_info for record in caplog.records)


def test_it_is_told_again_after_a_while(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedulearn.store.condition._NOT_AGAIN", 0.0)
    condition = Condition("here")
    for _ in range(2):
        condition.failed(READ, "the disk is full", 0.0)
        condition.worked(READ)
    assert told(caplog) == [LOST, BACK] * 2


def test_a_full_database_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_store(tmp_path / "full.db") as store:

        @sa.event.listens_for(store._db.engine, "begin")
        def _full(connection: Any) -> None:
            connection.exec_driver_sql("PRAGMA max_page_count=1")  # it is never below what there is

        for number in range(5):
            with pytest.raises(StoreAway, match="full"):
                store.set_setting(f"a{number}", "x" * 100_000)
            assert store.setting("a0") is None
            store.probe()
            assert store.lost_for() > 0, "that a transaction can begin does not help"
    assert told(caplog) == [LOST]


# --- a PostgreSQL that does not answer


@pytest.fixture
def stopped() -> Iterator[Any]:
    """Stops the process that serves a connection; it is let go at the end."""
    pids: list[int] = []

    def stop(connection: sa.Connection) -> None:
        pid = connection.execute(sa.text("SELECT pg_backend_pid()")).scalar_one()
        os.kill(pid, signal.SIGSTOP)
        pids.append(pid)

    yield stop
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


@pytest.fixture
def server(postgresql: PostgreSQL) -> Iterator[Store]:
    with open_store(postgresql.url("postgres")) as store:
        yield store


def test_a_server_that_stalls_is_given_up(server: Store, stopped: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_LONGEST_HURRIED", 0.2)

    def ask() -> None:
        with server.hurried(5.0)._db.read() as connection:
            stopped(connection)
            connection.execute(sa.text("SELECT 1"))

    with pytest.raises(StoreAway):
        ask()
    assert server.setting("a") is None, "another connection is made"


def test_a_kept_connection_that_has_stalled_is_replaced(
    server: Store, stopped: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_ANSWERS", 0.2)
    with server._db.read() as connection:
        stopped_later = connection.execute(sa.text("SELECT pg_backend_pid()")).scalar_one()
    os.kill(stopped_later, signal.SIGSTOP)
    try:
        assert server.setting("a") is None
    finally:
        os.kill(stopped_later, signal.SIGCONT)


@pytest.mark.slow
def test_what_was_written_outlives_a_crash_of_a_server_that_prefers_speed(
    server: Store, postgresql: PostgreSQL
) -> None:
    """The tests' own server does: it answers before the disk has it, unless it is told otherwise."""
    for value in range(5):
        server.set_setting("a", value)
        postgresql.stop()
        postgresql.start()
        assert server.setting("a") == value
