"""What a job's metric should reach since that was changed, and when it did."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("target", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("reached_at", BIG, nullable=True))
