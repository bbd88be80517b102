"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _nodes()
    _jobs()
    _attempts()
    _leases()
    _log()
    _metrics()
    _accounts()
    _rest()


def _nodes() -> None:
    op.create_table(
        "nodes",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("executor", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("capacity", sa.Text(), nullable=False),
        sa.Column("reserved", sa.Text(), nullable=False),
        sa.Column("cpus_per_gpu", sa.Double(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "devices",
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("memory", BIG, nullable=False),
        sa.Column("outside_use", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["node"], ["nodes.name"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("node", "id"),
    )


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", BIG, sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("submitted_at", BIG, nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("deadline", BIG, nullable=True),
        sa.Column("time_limit", BIG, nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("restarts", sa.Integer(), nullable=False),
        sa.Column("preemptions", sa.Integer(), nullable=False),
        sa.Column("migrations", sa.Integer(), nullable=False),
        sa.Column("resizes", sa.Integer(), nullable=False),
        sa.Column("not_before", BIG, nullable=False),
        sa.Column("queued_at", BIG, nullable=False),
        sa.Column("started_at", BIG, nullable=True),
        sa.Column("finished_at", BIG, nullable=True),
        sa.Column("ran_value", BIG, nullable=False),
        sa.Column("ran_since", BIG, nullable=False),
        sa.Column("ran_rate", sa.Double(), nullable=False),
        sa.Column("attained_value", sa.Double(), nullable=False),
        sa.Column("attained_since", BIG, nullable=False),
        sa.Column("attained_rate", sa.Double(), nullable=False),
        sa.Column("stop", sa.String(length=16), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("forget", sa.Boolean(), nullable=False),
        sa.Column("mark", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_jobs_finished_at", "jobs", ["finished_at", "id"], unique=False)
    op.create_index("ix_jobs_name", "jobs", ["name", "id"], unique=False)
    op.create_index("ix_jobs_priority", "jobs", ["priority", "id"], unique=False)
    op.create_index("ix_jobs_state", "jobs", ["state", "id"], unique=False)
    op.create_index("ix_jobs_submitted_at", "jobs", ["submitted_at", "id"], unique=False)
    op.create_index("ix_jobs_user", "jobs", ["user", "id"], unique=False)


def _attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("job", BIG, autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("created_at", BIG, nullable=False),
        sa.Column("stop", sa.String(length=16), nullable=True),
        sa.Column("stop_asked_at", BIG, nullable=True),
        sa.Column("ended_at", BIG, nullable=True),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job", "number"),
    )
    op.create_table(
        "workers",
        sa.Column("job", BIG, autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("rank", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("devices", sa.Text(), nullable=False),
        sa.Column("started_at", BIG, nullable=True),
        sa.Column("ended_at", BIG, nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("report_seq", BIG, server_default=sa.text("(-1)"), nullable=False),
        sa.Column("pattern_seq", BIG, server_default=sa.text("(-1)"), nullable=False),
        sa.Column("pattern_offset", BIG, server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(["job", "attempt"], ["attempts.job", "attempts.number"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job", "attempt", "rank"),
    )


def _leases() -> None:
    op.create_table(
        "leases",
        sa.Column("job", BIG, autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("rank", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("amounts", sa.Text(), nullable=False),
        sa.Column("devices", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job", "attempt", "rank"),
    )
    op.create_table(
        "lease_devices",
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("job", BIG, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job", "attempt", "rank"], ["leases.job", "leases.attempt", "leases.rank"], ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("device"),
    )
    op.create_index("ix_lease_devices_worker", "lease_devices", ["job", "attempt", "rank"], unique=False)


def _log() -> None:
    op.create_table(
        "events",
        sa.Column("serial", BIG, sa.Identity(always=False), nullable=False),
        sa.Column("at", BIG, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("job", BIG, nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("node", sa.Text(), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=True),
        sa.Column("data", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("serial"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_events_job", "events", ["job", "serial"], unique=False)
    op.create_table(
        "requests",
        sa.Column("serial", BIG, sa.Identity(always=False), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("job", BIG, nullable=True),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("at", BIG, nullable=False),
        sa.PrimaryKeyConstraint("serial"),
        sqlite_autoincrement=True,
    )


def _metrics() -> None:
    op.create_table(
        "metric_series",
        sa.Column("id", BIG, sa.Identity(always=False), nullable=False),
        sa.Column("job", BIG, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("source", sa.String(length=16), nullable=False),
        sa.Column("total", BIG, nullable=False),
        sa.Column("stride", BIG, nullable=False),
        sa.Column("last_step", BIG, nullable=False),
        sa.Column("last_value", sa.Double(), nullable=True),
        sa.Column("min_value", sa.Double(), nullable=True),
        sa.Column("max_value", sa.Double(), nullable=True),
        sa.Column("updated_at", BIG, nullable=False),
        sa.Column("spark", sa.Text(), nullable=False),
        sa.Column("spark_stride", BIG, nullable=False),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ux_metric_series", "metric_series", ["job", "name", "rank"], unique=True)
    op.create_table(
        "metric_points",
        sa.Column("series", BIG, autoincrement=False, nullable=False),
        sa.Column("ordinal", BIG, autoincrement=False, nullable=False),
        sa.Column("step", BIG, nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("at", BIG, nullable=False),
        sa.ForeignKeyConstraint(["series"], ["metric_series.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("series", "ordinal"),
        sqlite_with_rowid=False,
    )


def _accounts() -> None:
    op.create_table(
        "users",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("uid", BIG, nullable=True),
        sa.Column("gid", BIG, nullable=True),
        sa.Column("max_priority", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "tokens",
        sa.Column("id", BIG, sa.Identity(always=False), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("created_at", BIG, nullable=False),
        sa.Column("job", BIG, nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("hash"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_tokens_job", "tokens", ["job", "attempt"], unique=False)
    op.create_index("ix_tokens_user", "tokens", ["user"], unique=False)


def _rest() -> None:
    op.create_table(
        "settings",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "roles",
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("fence", BIG, nullable=False),
        sa.Column("renewed_at", BIG, nullable=False),
        sa.Column("ttl", BIG, nullable=False),
        sa.PrimaryKeyConstraint("role"),
    )
