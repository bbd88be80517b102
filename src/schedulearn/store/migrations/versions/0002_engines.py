"""Nodes that are Docker Engines: where they answer, what runs there, and why one does not take jobs."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    for name in ("address", "default_image", "engine", "version"):
        op.add_column("nodes", sa.Column(name, sa.Text(), nullable=True))
    op.add_column("nodes", sa.Column("drain", sa.Boolean(), nullable=True))
    op.add_column("nodes", sa.Column("lost_at", BIG, nullable=True))
    op.add_column("nodes", sa.Column("problem", sa.Text(), nullable=True))
    # Until now a drained node was known by its state alone.
    nodes = sa.table("nodes", sa.column("drain", sa.Boolean), sa.column("state", sa.String))
    op.execute(sa.update(nodes).where(nodes.c.state == "draining").values(drain=sa.true()))
