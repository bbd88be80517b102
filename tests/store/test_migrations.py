"""Migrations: from nothing to the tables as they are declared."""

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command, op
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from schedulearn import store as package
from schedulearn.core.domain.errors import StoreError
from schedulearn.core.domain.ids import AttemptId, NodeName
from schedulearn.core.domain.job import HistoryEvent
from schedulearn.core.domain.node import Node, NodeState
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.spec import JobSpec
from schedulearn.core.domain.states import JobState
from schedulearn.store import Cycle, open_store, schema
from schedulearn.store.engine import Database
from schedulearn.store.store import _parse
from schedulearn.store.tables import metadata


def by_steps(url):
    """The way from nothing through every version."""
    database = Database(_parse(url))
    try:
        schema.migrate(database)
    finally:
        database.close()


@pytest.mark.parametrize("make", [by_steps, lambda url: open_store(url).close()], ids=["by steps", "at once"])
def test_from_empty_to_head_equals_the_tables(url, make):
    make(url)
    with open_store(url) as store, store._db.read() as connection:
        # SQLite has no IDENTITY to compare; its tables are compared by their text below.
        opts = {"compare_type": True, "compare_server_default": connection.dialect.name != "sqlite"}
        context = MigrationContext.configure(connection, opts=opts)
        assert compare_metadata(context, metadata) == []


def test_the_tables_are_alike_to_the_last_word(tmp_path):
    """What the comparison above does not look at: AUTOINCREMENT, WITHOUT ROWID, what a foreign key does on delete."""
    by_steps(tmp_path / "migrated.db")
    open_store(tmp_path / "created.db").close()
    created, migrated = (sa.create_engine(f"sqlite:///{tmp_path}/{name}.db") for name in ("created", "migrated"))

    def parts(sql):
        """What stands between commas. Columns that were added later stand all on one line, behind the keys."""
        found = re.split(r",\s+(?![^()]*\))|\n", sql.strip().removesuffix(")"))
        return [*filter(None, (part.strip(" ,\t") for part in found))]

    def words(engine):
        with engine.connect() as connection:
            found = connection.execute(sa.text("SELECT name, sql FROM sqlite_master"))
            texts = {name: sorted(parts(sql or "")) for name, sql in found}
        engine.dispose()
        return {name: lines for name, lines in texts.items() if not name.startswith("sqlite_")}

    assert words(migrated) == words(created)


def test_the_head_that_the_code_knows_is_the_newest_step():
    config = Config()
    config.set_main_option("script_location", str(Path(package.__file__).parent / "migrations"))
    assert ScriptDirectory.from_config(config).get_current_head() == schema.HEAD


@pytest.mark.parametrize(
    ("make", "owner", "name"), [(by_steps, op, "create_index"), (open_store, schema._VERSION, "create")]
)
def test_what_fails_on_the_way_leaves_the_database_empty(url, monkeypatch, make, owner, name):
    def fail(*_, **__):
        raise sa.exc.OperationalError("CREATE INDEX", {}, Exception("disk full"))

    with monkeypatch.context() as broken:
        broken.setattr(owner, name, fail)
        with pytest.raises(StoreError, match="disk full"):
            make(url)
    database = Database(_parse(url))
    with database.read() as connection:
        assert sa.inspect(connection).get_table_names() == []
    database.close()
    with open_store(url) as store:
        assert store.list_jobs() == ([], 0)


def test_nodes_of_the_first_schema_are_kept_and_a_drained_one_stays_drained(url):
    database = Database(_parse(url))
    config = Config()
    config.set_main_option("script_location", str(Path(package.__file__).parent / "migrations"))
    rows = [{"name": name, "state": state} for name, state in (("a", "up"), ("b", "draining"))]
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        columns = "name, executor, state, capacity, reserved, cpus_per_gpu, labels"
        values = ":name, 'process', :state, '{\"cpus\": 2}', '{}', 1.0, '[]'"
        connection.execute(sa.text(f"INSERT INTO nodes ({columns}) VALUES ({values})"), rows)
    database.close()
    with open_store(url) as store:
        first, second = store.list_nodes()
    usual = Node(NodeName("a"), capacity=Resources(cpus=2))
    assert first == usual
    assert second == replace(usual, name=NodeName("b"), state=NodeState.DRAINING, drain=True)


def take_back_owners(connection):
    """As the step before 0009 leaves the tables."""
    for table in ("snapshots", "submissions", "audit"):
        connection.exec_driver_sql(f"DROP TABLE {table}")
    for index in ("ux_users_id", "ix_jobs_owner"):
        connection.exec_driver_sql(f"DROP INDEX {index}")
    for table, column in (("users", "id"), ("jobs", "owner"), ("workers", "pattern_tries")):
        connection.exec_driver_sql(f"ALTER TABLE {table} DROP COLUMN {column}")
    connection.exec_driver_sql("DELETE FROM settings WHERE key = 'last_user_id'")


def test_what_is_there_already_gets_its_owners(url):
    spec = JobSpec("mnist", "true", snapshot="a" * 64)
    with open_store(url) as store:
        for name in ("bob", "ann"):
            store.add_user(name, "user")
        theirs = [store.add_job(spec, name, 1.0, "") for name in ("ann", "bob", "removed")]
        with store._db.write() as connection:
            take_back_owners(connection)
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0008'")
    with open_store(url) as store:
        assert [(user.name, user.id) for user in store.users()] == [("ann", 1), ("bob", 2)]
        assert [store.job(number).owner for number in theirs] == [1, 2, None]
        assert store.add_user("cy", "user").id == 3
        with store._db.read() as connection:
            kept = connection.exec_driver_sql("SELECT sha256, owner FROM snapshots ORDER BY owner").all()
        assert [tuple(row) for row in kept] == [("a" * 64, 1), ("a" * 64, 2)]


def test_jobs_and_history_from_before_notices_are_kept_and_nobody_is_told_of_them(url):
    with open_store(url) as store:
        number = store.add_job(JobSpec("mnist", "true"), "ann", 1.0, "submitted by ann")
        fence = store.take_role("scheduler", "test", 1.0, 30.0)
        row = store.job(number)
        row.job.state, row.job.finished_at = JobState.FAILED, 2.0
        event = HistoryEvent(2.0, "fail", "exit code 1", number, state=JobState.FAILED)
        store.save_cycle(Cycle(fence, jobs=[row.job], events=[event]))
        before = store.job(number), store.events_after(0)
        with store._db.write() as connection:  # as the step before leaves it
            for table in ("notices", "subscriptions"):
                connection.exec_driver_sql(f"DROP TABLE {table}")
            connection.exec_driver_sql("ALTER TABLE tokens DROP COLUMN expires_at")
            take_back_owners(connection)
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0006'")
    with open_store(url) as store:
        assert (store.job(number), store.events_after(0)) == before
        store.follow_ends()
        assert store.new_ends()[0] == []
        assert store.keep_secret("ann", "one") == "one"


def test_log_ins_from_before_tokens_ended_end_some_time_from_now(url):
    with open_store(url) as store:
        for label, hash, attempt in (("page", "aa", None), ("laptop", "bb", None), ("page", "cc", AttemptId(1, 1))):
            store.add_token("ann", label, hash, 1.0, attempt)
        with store._db.write() as connection:  # as the step before leaves it
            connection.exec_driver_sql("ALTER TABLE tokens DROP COLUMN expires_at")
            take_back_owners(connection)
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0007'")
    now = time.time()
    with open_store(url) as store:
        assert store.token_by_hash("aa").expires_at >= round(now, 6) + 30 * 86400 - 1e-6
        assert [store.token_by_hash(hash).expires_at for hash in ("bb", "cc")] == [None, None]
