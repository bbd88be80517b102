"""Opening: good files, bad files, and what is said about them."""

import os
import shutil
import sqlite3
import stat
import sys
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from schedulearn.core.domain.errors import CorruptDatabase, NewerDatabase, StoreError
from schedulearn.core.domain.spec import JobSpec
from schedulearn.store import open_store, schema

AT = 1_700_000_000.25


@pytest.fixture
def path(tmp_path):
    """A SQLite file with a thousand jobs, closed."""
    path = tmp_path / "schedulearn.db"
    with open_store(path) as store:
        store.add_job(JobSpec("mnist", "true", env={"A": "x" * 500}), "ann", AT, "")
        for _ in range(10):
            _double(store)
    return path


def _double(store):
    with store._db.write() as connection:
        names = ", ".join(f'"{c["name"]}"' for c in sa.inspect(connection).get_columns("jobs") if c["name"] != "id")
        connection.execute(sa.text(f"INSERT INTO jobs ({names}) SELECT {names} FROM jobs"))


def test_a_store_opens_again_with_what_was_in_it(url):
    with open_store(url) as store:
        id = store.add_job(JobSpec("mnist", "true"), "ann", AT, "")
    with open_store(url) as store:
        assert store.job(id).job.spec.name == "mnist"


def test_a_path_or_an_address(tmp_path):
    for address in (tmp_path / "a.db", str(tmp_path / "b.db"), f"sqlite:///{tmp_path}/c.db"):
        open_store(address).close()
    assert {p.name for p in tmp_path.iterdir()} == {"a.db", "b.db", "c.db"}


def test_a_path_with_odd_characters(tmp_path):
    path = tmp_path / "50% of ü?#&.db"
    open_store(path).close()
    assert path.exists()


def test_the_file_is_its_owners_alone_and_in_wal(tmp_path):
    path = tmp_path / "schedulearn.db"
    with open_store(path) as store, store._db.read() as connection:
        for file in tmp_path.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name
        pragmas = [connection.exec_driver_sql(f"PRAGMA {p}").scalar() for p in ("journal_mode", "synchronous")]
        assert pragmas == ["wal", 2]
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 30_000


def test_a_file_that_is_no_database(tmp_path):
    path = tmp_path / "schedulearn.db"
    path.write_bytes(b"this is a text\n" * 1000)
    with pytest.raises(CorruptDatabase, match=r"schedulearn\.db"):
        open_store(path)
    assert path.read_bytes() == b"this is a text\n" * 1000


def test_a_database_of_something_else(tmp_path):
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE recipes (name)")
    before = path.read_bytes()
    with pytest.raises(CorruptDatabase, match="no database of Schedulearn"):
        open_store(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", ["middle", "truncated", "header"])
def test_a_damaged_file(path, damage):
    data = bytearray(path.read_bytes())
    if damage == "middle":
        pages = len(data) // 4096
        for page in range(pages // 2, pages, 3):  # rows of jobs: nothing that opening the file needs
            data[page * 4096 : page * 4096 + 600] = os.urandom(600)
    elif damage == "truncated":
        del data[len(data) // 2 :]
    else:
        data[:64] = bytes(64)
    path.write_bytes(data)
    with pytest.raises(CorruptDatabase, match="damaged"):
        open_store(path)
    assert path.read_bytes() == data


def test_a_file_that_is_damaged_while_it_is_open(path):
    with open_store(path) as store:
        data = path.read_bytes()
        path.write_bytes(data[:8192] + os.urandom(len(data) - 8192))
        store._db.engine.dispose()  # what a connection has in its memory stays readable
        with pytest.raises(CorruptDatabase):
            store.list_jobs(limit=5000)


@pytest.mark.parametrize("version", [schema.head() + 1, 9999])
def test_a_database_of_a_newer_version_is_left_alone(url, contents, version):
    open_store(url).close()
    address = url.replace("postgresql:", "postgresql+psycopg:") if "://" in url else f"sqlite:///{url}"
    engine = sa.create_engine(address)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE schema_version SET version = :v"), {"v": version})
    engine.dispose()
    if "://" not in url:  # so that a change to WAL would show
        with closing(sqlite3.connect(url)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
    before = contents(), Path(url).read_bytes() if "://" not in url else None

    with pytest.raises(NewerDatabase, match=str(version)):
        open_store(url)
    assert (contents(), Path(url).read_bytes() if "://" not in url else None) == before


def test_no_folder(tmp_path):
    with pytest.raises(StoreError, match="no folder"):
        open_store(tmp_path / "missing" / "schedulearn.db")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_place_of_the_file(tmp_path):
    with pytest.raises(StoreError, match="not a file"):
        open_store(tmp_path)


@contextmanager
def _not_as_root():
    """Root may write everywhere; the file system must see somebody else."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.parametrize("existing", [False, True])
def test_a_read_only_folder(existing, tmp_path):
    open_store(tmp_path / "warm.db").close()  # whatever is loaded late is loaded now
    folder = Path(tempfile.mkdtemp())
    try:
        if existing:
            shutil.copy(tmp_path / "warm.db", folder / "schedulearn.db")
            (folder / "schedulearn.db").chmod(0o666)
        folder.chmod(0o555)
        with _not_as_root(), pytest.raises(StoreError, match=r"Permission denied|read-only"):
            open_store(folder / "schedulearn.db")
        assert len(list(folder.iterdir())) == existing
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_a_file_that_may_not_be_written(path):
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o777)
        shutil.copy(path, folder / "schedulearn.db")
        (folder / "schedulearn.db").chmod(0o444)
        with _not_as_root(), pytest.raises(StoreError, match="cannot be opened for writing"):
            open_store(folder / "schedulearn.db")
    finally:
        shutil.rmtree(folder)


def test_a_server_that_does_not_answer_and_the_password_stays_secret(tmp_path):
    pytest.importorskip("psycopg")
    with pytest.raises(StoreError, match="cannot be used") as caught:
        open_store(f"postgresql://ann:secret@/jobs?host={tmp_path}")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("address", ["mysql://ann:secret@host/jobs", "nonsense://", "sqlite://"])
def test_an_address_of_something_else(address):
    with pytest.raises(StoreError, match="postgresql://") as caught:
        open_store(address)
    assert "secret" not in str(caught.value)


def test_without_the_driver_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match="schedulearn\\[postgres\\]"):
        open_store("postgresql://host/jobs")
