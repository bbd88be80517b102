"""Workers that come and go while their attempt runs, and how many a job may have since that was changed."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("workers", sa.Text(), nullable=True))
    op.add_column("attempts", sa.Column("generation", sa.Integer(), nullable=True))
    op.add_column("workers", sa.Column("joined", sa.Integer(), nullable=True))
    op.add_column("workers", sa.Column("left_at", BIG, nullable=True))
