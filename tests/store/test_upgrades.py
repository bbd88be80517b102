"""From an older database to the tables as they are declared."""

import re
from pathlib import Path

import pytest
import sqlalchemy as sa

from schedulearn.core.domain.errors import StoreError
from schedulearn.core.domain.spec import JobSpec
from schedulearn.store import open_store, schema
from schedulearn.store.engine import Database
from schedulearn.store.store import _parse

FIRST = Path(__file__).parent.parent / "data/first-schema"  # what the first version made, with rows in it


@pytest.fixture
def database(url):
    opened = Database(_parse(url))
    yield opened
    opened.close()


@pytest.fixture
def first(database):
    """A database that the first version made."""
    kept = (FIRST / f"{database.engine.dialect.name}.sql").read_text()
    with database.engine.begin() as connection:
        for statement in kept.split(";\n"):
            if statement.strip():
                connection.exec_driver_sql(statement)
    return database


def tables_of(database):
    """All that the database itself says of its tables; columns that were added later stand behind the others."""
    with database.read() as connection:
        if database.path:
            found = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
            return {name: sorted(parts(sql or "")) for name, sql in found}
        asked = (
            "SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, column_default, "
            "is_identity FROM information_schema.columns WHERE table_schema = 'public'",
            "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint "
            "WHERE connamespace = 'public'::regnamespace",
            "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'public'",
        )
        return [sorted(map(repr, connection.exec_driver_sql(query))) for query in asked]


def parts(sql):
    """What stands between commas."""
    found = re.split(r",\s+(?![^()]*\))|\n", sql.strip().removesuffix(")"))
    return [*filter(None, (part.strip(" ,\t") for part in found))]


def adds(column, table="jobs"):
    return lambda connection: connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {column} INTEGER")


def test_from_the_first_version_to_the_tables_as_they_are_declared(first, url):
    open_store(url).close()
    upgraded = tables_of(first)
    with first.write() as connection:
        for name in sa.inspect(connection).get_table_names():
            connection.exec_driver_sql(f"DROP TABLE {name}" + ("" if first.path else " CASCADE"))
    open_store(url).close()
    assert upgraded == tables_of(first)


def test_what_the_first_version_wrote_is_there_still(first, url):
    with open_store(url) as store:
        state = store.load_state()
        job, attempt, lease, node = state.jobs[0], state.attempts[0], state.leases[0], state.nodes[0]
        assert (job.spec.name, job.user, job.state, job.spec.workers.max) == ("mnist", "ann", "running", 2)
        assert (job.ran.at(110.0), job.outcome.exit_code, job.move.to[0].node) == (15.0, 3, "gpu1")
        assert (str(attempt.workers[0].id), attempt.generation) == ("1.1.0", 2)
        assert (lease.amounts["gpus"], lease.devices, node.devices[0].memory) == (1, ("GPU-1",), 1024)
        assert [stored.event.kind for stored in store.events_after(0)] == ["submitted"]
        assert [point.value for point in store.curve(job.id, "loss")] == [0.5]
        assert store.token_by_hash("aa").user == store.user_of(job.id).name == "ann"
        assert store.add_job(JobSpec("next", "true"), "ann", 200.0, "submitted by ann") == 2


def test_steps_come_in_their_order_and_only_those_that_are_due(first, url, monkeypatch):
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, adds("one"), adds("two")))
    open_store(url).close()
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, adds("three")))
    open_store(url).close()
    with first.read() as connection:
        names = [column["name"] for column in sa.inspect(connection).get_columns("jobs")]
    assert names[-3:] == ["one", "two", "three"]


@pytest.mark.parametrize("failing", ["no_such_table", "jobs"])
def test_a_step_that_fails_leaves_the_database_as_it_was(first, url, monkeypatch, contents, failing):
    open_store(url).close()  # rows are read back by the tables as they are declared
    before = tables_of(first), contents()
    with monkeypatch.context() as broken:
        broken.setattr(schema, "STEPS", (*schema.STEPS, adds("one"), adds("one", failing)))
        with pytest.raises(StoreError, match="cannot be used: "):
            open_store(url)
    assert (tables_of(first), contents()) == before


def test_making_the_tables_fails_as_a_whole(database, url, monkeypatch):
    def fail(*_, **__):
        raise sa.exc.OperationalError("CREATE INDEX", {}, Exception("disk full"))

    with monkeypatch.context() as broken:
        broken.setattr(schema._VERSION, "create", fail)
        with pytest.raises(StoreError, match="disk full"):
            open_store(url)
    with database.read() as connection:
        assert sa.inspect(connection).get_table_names() == []
    with open_store(url) as store:
        assert store.list_jobs() == ([], 0)


@pytest.mark.parametrize("version", ["0001", "0010"])
def test_a_database_from_before_the_first_version_is_refused_in_words_and_left_alone(database, url, version):
    with database.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        connection.exec_driver_sql(f"INSERT INTO alembic_version VALUES ('{version}')")
        connection.exec_driver_sql("CREATE TABLE jobs (id INTEGER)")
    before = tables_of(database), Path(url).read_bytes() if database.path else None
    with pytest.raises(StoreError, match="start with a new data folder, or export"):
        open_store(url)
    assert (tables_of(database), Path(url).read_bytes() if database.path else None) == before
