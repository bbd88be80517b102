"""Users and what is theirs by ids that never come again; owners of snapshots; keys of submissions; the audit log.

Snapshots from before belong to whoever has a job with them.
"""

import json
import time

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
USERS = sa.table("users", sa.column("name", sa.Text), sa.column("id", BIG))
JOBS = sa.table("jobs", sa.column("user", sa.Text), sa.column("owner", BIG), sa.column("spec", sa.Text))
SETTINGS = sa.table("settings", sa.column("key", sa.Text), sa.column("value", sa.Text))
SNAPSHOTS = sa.table(
    "snapshots",
    sa.column("sha256", sa.String(64)),
    sa.column("owner", BIG),
    sa.column("size", BIG),
    sa.column("uploaded_at", BIG),
)


def upgrade() -> None:
    op.add_column("users", sa.Column("id", BIG, nullable=True))
    op.add_column("jobs", sa.Column("owner", BIG, nullable=True))
    _create_tables()
    connection = op.get_bind()
    names = connection.execute(sa.select(USERS.c.name).order_by(USERS.c.name)).scalars().all()
    for id, name in enumerate(names, 1):
        connection.execute(sa.update(USERS).where(USERS.c.name == name).values(id=id))
        connection.execute(sa.update(JOBS).where(JOBS.c.user == name).values(owner=id))
    connection.execute(sa.insert(SETTINGS), {"key": "last_user_id", "value": json.dumps(len(names))})
    _give_snapshots(connection)
    op.create_index("ux_users_id", "users", ["id"], unique=True)
    op.create_index("ix_jobs_owner", "jobs", ["owner", "state"])


def _give_snapshots(connection: sa.Connection) -> None:
    known = connection.execute(sa.select(JOBS.c.owner, JOBS.c.spec).where(JOBS.c.owner.is_not(None)))
    theirs = {(sha, owner) for owner, spec in known if (sha := json.loads(spec).get("snapshot"))}
    now = round(time.time() * 1_000_000)
    rows = [{"sha256": sha, "owner": owner, "size": 0, "uploaded_at": now} for sha, owner in sorted(theirs)]
    if rows:
        connection.execute(sa.insert(SNAPSHOTS), rows)


def _create_tables() -> None:
    op.create_table(
        "snapshots",
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("owner", BIG, autoincrement=False, nullable=False),
        sa.Column("size", BIG, nullable=False),
        sa.Column("uploaded_at", BIG, nullable=False),
        sa.PrimaryKeyConstraint("sha256", "owner"),
    )
    op.create_index("ix_snapshots_owner", "snapshots", ["owner", "uploaded_at"])
    op.create_table(
        "submissions",
        sa.Column("owner", BIG, autoincrement=False, nullable=False),
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("job", BIG, nullable=False),
        sa.Column("at", BIG, nullable=False),
        sa.PrimaryKeyConstraint("owner", "key"),
    )
    op.create_index("ix_submissions_at", "submissions", ["at"])
    op.create_table(
        "audit",
        sa.Column("serial", BIG, sa.Identity(), nullable=False),
        sa.Column("at", BIG, nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("actor_id", BIG, nullable=True),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("object", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("serial"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_actor", "audit", ["actor", "serial"])
    op.create_index("ix_audit_at", "audit", ["at"])
