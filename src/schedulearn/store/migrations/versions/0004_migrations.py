"""How long a job was on the move in all, and the move that is under way."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("migration_seconds", BIG, nullable=True))
    op.add_column("jobs", sa.Column("move", sa.Text(), nullable=True))
