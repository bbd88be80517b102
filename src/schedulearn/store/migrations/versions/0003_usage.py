"""What workers use over time, and a CPU limit that a job was given after it was submitted."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("cpus_limit", sa.Double()))
    op.create_table(
        "usage",
        *_worker(),
        sa.Column("total", BIG, nullable=False),
        sa.Column("stride", BIG, nullable=False),
        sa.Column("cpus", sa.Double()),
        sa.Column("memory_peak", BIG),
        *_measured(),
        sa.PrimaryKeyConstraint("job", "attempt", "rank"),
        sa.ForeignKeyConstraint(
            ["job", "attempt", "rank"], ["workers.job", "workers.attempt", "workers.rank"], ondelete="CASCADE"
        ),
    )
    op.create_table(
        "usage_points",
        *_worker(),
        sa.Column("ordinal", BIG, autoincrement=False, nullable=False),
        *_measured(),
        sa.PrimaryKeyConstraint("job", "attempt", "rank", "ordinal"),
        sa.ForeignKeyConstraint(
            ["job", "attempt", "rank"], ["usage.job", "usage.attempt", "usage.rank"], ondelete="CASCADE"
        ),
        sqlite_with_rowid=False,
    )


def _worker() -> list[sa.Column[int]]:
    return [
        sa.Column("job", BIG, autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("rank", sa.Integer(), autoincrement=False, nullable=False),
    ]


def _measured() -> list[sa.Column[float]]:
    return [
        sa.Column("at", BIG, nullable=False),
        sa.Column("cpu_seconds", sa.Double(), nullable=False),
        sa.Column("memory", BIG),
        sa.Column("read_bytes", BIG),
        sa.Column("written_bytes", BIG),
        sa.Column("received_bytes", BIG),
        sa.Column("sent_bytes", BIG),
        sa.Column("energy", sa.Double()),
        sa.Column("cpus_limit", sa.Double()),
        sa.Column("weight", sa.Integer()),
        sa.Column("memory_limit", BIG),
    ]
