"""How often the output of a worker was begun to be searched without an end: the service died meanwhile."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("workers", sa.Column("pattern_tries", sa.Integer(), server_default=sa.text("0"), nullable=False))
