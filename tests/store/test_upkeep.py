"""Backups and checks."""

import sqlite3
import stat
from contextlib import closing

import pytest

from schedulearn.core.domain.errors import StoreError
from schedulearn.store import Point, open_store

AT = 1_700_000_000.25


def rows(path):
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def test_a_backup_can_be_opened_and_equals(make, url, tmp_path):
    copy = tmp_path / "copy.db"
    job = make.running("gpu0")
    make.store.add_points(job.id, 1, 0, "report", [Point(1, AT, 1, "loss", 0.5)])
    if "://" in url:
        with pytest.raises(StoreError, match="pg_dump"):
            make.store.backup(copy)
        return
    copy.write_text("an older backup")
    make.store.backup(copy)

    assert rows(copy) == rows(url)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert sorted(p.name for p in tmp_path.glob("copy*")) == ["copy.db"]
    with open_store(copy) as again:
        assert again.load_state() == make.store.load_state()
        assert again.integrity_check() == []


def test_a_backup_that_cannot_be_made_says_so_and_spares_the_older_one(tmp_path):
    with open_store(tmp_path / "a.db") as store:
        with pytest.raises(StoreError, match="could not be made"):
            store.backup(tmp_path / "missing" / "copy.db")
        (tmp_path / "folder").mkdir()
        with pytest.raises(StoreError, match="could not be made"):
            store.backup(tmp_path / "folder")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.db", "folder"]


def test_a_sound_database_has_no_problems(make):
    make.running("gpu0")
    assert make.store.integrity_check() == []


def test_a_check_finds_what_is_wrong(tmp_path):
    path = tmp_path / "a.db"
    open_store(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO attempts (job, number, created_at, generation) VALUES (17, 1, 0, 0)")
        connection.commit()
    with open_store(path) as store:
        assert store.integrity_check() == ["a row of attempts refers to a row of jobs that is not there"]
