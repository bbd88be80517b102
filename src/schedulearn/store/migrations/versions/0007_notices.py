"""Whom users want to be told of the ends of their jobs, and the notices that were made of them."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "subscriptions",
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("addresses", sa.Text(), nullable=False),
        sa.Column("given", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("user"),
    )
    op.create_table(
        "notices",
        sa.Column("serial", BIG, sa.Identity(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("created_at", BIG, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("due_at", BIG, nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("serial"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_notices_due", "notices", ["state", "due_at"])
    op.create_index("ix_notices_user", "notices", ["user", "serial"])
