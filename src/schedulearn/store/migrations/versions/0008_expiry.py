"""When a token ends. Those that log-ins have made until now end like new ones: after 30 days without use."""

import time

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TOKENS = sa.table("tokens", sa.column("label", sa.Text), sa.column("job", BIG), sa.column("expires_at", BIG))


def upgrade() -> None:
    op.add_column("tokens", sa.Column("expires_at", BIG, nullable=True))
    made_by_log_ins = (TOKENS.c.label == "page") & TOKENS.c.job.is_(None)
    until = round((time.time() + 30 * 86400) * 1_000_000)
    op.execute(sa.update(TOKENS).where(made_by_log_ins).values(expires_at=until))
