"""The tables. A change here needs a step in `upgrades.py`: a test compares the two."""

from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    text,
)

from schedulearn.core.domain.node import NodeState
from schedulearn.core.domain.states import JobState, StopReason
from schedulearn.store.columns import (
    Accrued,
    Amounts,
    Big,
    Json,
    Labels,
    Measured,
    Moves,
    Outcomes,
    Several,
    Targets,
    Time,
    Words,
    WorkerCounts,
    choice,
)

metadata = MetaData()


def _of_job() -> Column[int]:
    """The first part of the key of what belongs to a job, and goes when the job is forgotten."""
    return Column("job", Big, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True, autoincrement=False)


def _of_worker() -> list[Column[int]]:
    """The key of what belongs to one worker."""
    return [
        Column("job", Big, primary_key=True, autoincrement=False),
        Column("attempt", Integer, primary_key=True, autoincrement=False),
        Column("rank", Integer, primary_key=True, autoincrement=False),
    ]


nodes = Table(
    "nodes",
    metadata,
    Column("name", Words, primary_key=True),
    Column("executor", Words, nullable=False),
    Column("state", choice(NodeState), nullable=False),
    Column("capacity", Amounts, nullable=False),
    Column("reserved", Amounts, nullable=False),
    Column("cpus_per_gpu", Double, nullable=False),
    Column("labels", Labels, nullable=False),
    Column("address", Words, nullable=False),
    Column("default_image", Words, nullable=False),
    Column("engine", Words, nullable=False),
    Column("version", Words, nullable=False),
    Column("drain", Boolean, nullable=False),
    Column("lost_at", Time),
    Column("problem", Words, nullable=False),
)

devices = Table(
    "devices",
    metadata,
    Column("node", Words, ForeignKey("nodes.name", ondelete="CASCADE"), primary_key=True),
    Column("id", Words, primary_key=True),
    Column("position", Integer, nullable=False),  # devices stay in the node's own order
    Column("kind", Words, nullable=False),
    Column("model", Words, nullable=False),
    Column("memory", Big, nullable=False),
    Column("outside_use", Words, nullable=False),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", Big, Identity(), primary_key=True),
    # Fixed when it is submitted:
    Column("name", Words, nullable=False),
    Column("user", Words, nullable=False),
    Column("submitted_at", Time, nullable=False),
    Column("spec", Json, nullable=False),
    # Changed by the scheduler:
    Column("gpus", Integer, nullable=False),  # over all the workers it wants
    Column("state", choice(JobState), nullable=False),
    Column("reason", Words, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("deadline", Time),
    Column("time_limit", Time),
    Column("cpus_limit", Double),
    Column("workers", WorkerCounts, nullable=False),  # as last changed: the spec stays as it was submitted
    Column("target", Targets),  # likewise
    Column("reached_at", Time),
    Column("attempt", Integer, nullable=False),
    Column("restarts", Integer, nullable=False),
    Column("preemptions", Integer, nullable=False),
    Column("migrations", Integer, nullable=False),
    Column("migration_seconds", Time, nullable=False),
    Column("move", Moves),  # the migration under way: without it a restart would send the job somewhere else
    Column("resizes", Integer, nullable=False),
    Column("not_before", Time, nullable=False),
    Column("queued_at", Time, nullable=False),
    Column("started_at", Time),
    Column("finished_at", Time),
    Column("ran", Accrued, nullable=False),
    Column("worked", Accrued, nullable=False, server_default="[0, 0, 0]"),
    Column("attained", Accrued, nullable=False),
    Column("beside", Integer, nullable=False, server_default="0"),
    Column("stop", choice(StopReason)),
    Column("outcome", Outcomes),
    Column("forget", Boolean, nullable=False),
    Column("mark", Json, key="order_state"),
    # The submitter's `users.id`; NULL: there was no user of that name.
    Column("owner", Big),
    Index("ix_jobs_state", "state", "id"),
    Index("ix_jobs_owner", "owner", "state"),
    Index("ix_jobs_user", "user", "id"),
    Index("ix_jobs_name", "name", "id"),
    Index("ix_jobs_submitted_at", "submitted_at", "id"),
    Index("ix_jobs_priority", "priority", "id"),
    Index("ix_jobs_finished_at", "finished_at", "id"),
    sqlite_autoincrement=True,  # an id is never used twice, even after a delete
)

attempts = Table(
    "attempts",
    metadata,
    _of_job(),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("created_at", Time, nullable=False),
    Column("stop", choice(StopReason)),
    Column("stop_asked_at", Time),
    Column("ended_at", Time),
    Column("generation", Integer, nullable=False),
)

workers = Table(
    "workers",
    metadata,
    *_of_worker(),
    Column("node", Words, nullable=False),
    Column("devices", Several, nullable=False),
    Column("started_at", Time),
    Column("ended_at", Time),
    Column("outcome", Outcomes),
    # How far its metrics were taken in. Not the scheduler's: a cycle leaves these alone.
    Column("report_seq", Big, nullable=False, server_default=text("-1")),
    Column("pattern_seq", Big, nullable=False, server_default=text("-1")),
    Column("pattern_offset", Big, nullable=False, server_default=text("0")),
    Column("joined", Integer, nullable=False),
    Column("left_at", Time),
    # Looks at its output that have begun since the last one that came to its end.
    Column("pattern_tries", Integer, nullable=False, server_default=text("0")),
    ForeignKeyConstraint(["job", "attempt"], ["attempts.job", "attempts.number"], ondelete="CASCADE"),
)

leases = Table(
    "leases",
    metadata,
    _of_job(),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("rank", Integer, primary_key=True, autoincrement=False),
    Column("node", Words, nullable=False),
    Column("amounts", Amounts, nullable=False),
    Column("devices", Several, nullable=False),
)

lease_devices = Table(
    "lease_devices",
    metadata,
    Column("device", Words, primary_key=True),  # this key is what refuses a second lease
    Column("job", Big, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("rank", Integer, nullable=False),
    ForeignKeyConstraint(
        ["job", "attempt", "rank"], ["leases.job", "leases.attempt", "leases.rank"], ondelete="CASCADE"
    ),
    Index("ix_lease_devices_worker", "job", "attempt", "rank"),
)

events = Table(
    "events",
    metadata,
    Column("serial", Big, Identity(), primary_key=True),
    Column("at", Time, nullable=False),
    Column("kind", Words, nullable=False),
    Column("cause", Words, nullable=False),
    Column("job", Big),  # no foreign key: the last event of a job outlives it
    Column("attempt", Integer),
    Column("node", Words),
    Column("state", choice(JobState)),
    Column("data", Json, nullable=False),
    Index("ix_events_job", "job", "serial"),
    sqlite_autoincrement=True,
)

requests = Table(
    "requests",
    metadata,
    Column("serial", Big, Identity(), primary_key=True),
    Column("kind", Words, nullable=False),
    Column("job", Big),
    Column("data", Json, nullable=False),
    Column("by", Words, nullable=False),
    Column("at", Time, nullable=False),
    sqlite_autoincrement=True,
)

metric_series = Table(
    "metric_series",
    metadata,
    Column("id", Big, Identity(), primary_key=True),
    Column("job", Big, ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Column("name", Words, nullable=False),
    Column("rank", Integer, nullable=False),  # each worker's values are a series of their own
    Column("source", String(16), nullable=False),
    Column("total", Big, nullable=False),  # points that ever came
    Column("stride", Big, nullable=False),  # one in so many points is kept
    Column("last_step", Big, nullable=False),
    Column("last_value", Measured),
    Column("min_value", Double),
    Column("max_value", Double),
    Column("updated_at", Time, nullable=False),
    Column("spark", Json, nullable=False),  # a few values over the whole run, so that lists need no points
    Column("spark_stride", Big, nullable=False),
    Index("ux_metric_series", "job", "name", "rank", unique=True),
    sqlite_autoincrement=True,
)

metric_points = Table(
    "metric_points",
    metadata,
    Column("series", Big, ForeignKey("metric_series.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("ordinal", Big, primary_key=True, autoincrement=False),  # how many points came before it
    Column("step", Big, nullable=False),
    Column("value", Measured),
    Column("at", Time, nullable=False),
    sqlite_with_rowid=False,
)


def _measured() -> list[Column[Any]]:
    """What was measured of a worker at one moment: counters since its start, what it holds, its limits then."""
    return [
        Column("at", Time, nullable=False),
        Column("cpu_seconds", Double, nullable=False),
        Column("memory", Big),
        Column("read_bytes", Big),
        Column("written_bytes", Big),
        Column("received_bytes", Big),
        Column("sent_bytes", Big),
        Column("energy", Double),
        Column("cpus_limit", Double),
        Column("weight", Integer),
        Column("memory_limit", Big),
    ]


# What each worker uses: the latest look here, earlier ones (thinned) in the points.
usage = Table(
    "usage",
    metadata,
    *_of_worker(),
    Column("total", Big, nullable=False),  # looks that were ever taken
    Column("stride", Big, nullable=False),  # one in so many is kept
    Column("cpus", Double),  # cores in use between the last two looks
    Column("memory_peak", Big),
    *_measured(),
    ForeignKeyConstraint(
        ["job", "attempt", "rank"], ["workers.job", "workers.attempt", "workers.rank"], ondelete="CASCADE"
    ),
)

usage_points = Table(
    "usage_points",
    metadata,
    *_of_worker(),
    Column("ordinal", Big, primary_key=True, autoincrement=False),  # how many looks came before it
    *_measured(),
    ForeignKeyConstraint(["job", "attempt", "rank"], ["usage.job", "usage.attempt", "usage.rank"], ondelete="CASCADE"),
    sqlite_with_rowid=False,
)

users = Table(
    "users",
    metadata,
    Column("name", Words, primary_key=True),
    Column("role", String(16), nullable=False),
    Column("uid", Big),
    Column("gid", Big),
    Column("max_priority", Integer),
    Column("id", Big, nullable=False),  # never used twice: a removed user's name may be given to another
    Index("ux_users_id", "id", unique=True),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Big, Identity(), primary_key=True),
    Column("user", Words, nullable=False),  # no foreign key: a job goes on reporting when its user is removed
    Column("label", Words, nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("created_at", Time, nullable=False),
    Column("job", Big),  # with `attempt`: the attempt whose own token it is
    Column("attempt", Integer),
    Column("expires_at", Time),  # NULL: it does not end by itself
    Index("ix_tokens_user", "user"),
    Index("ix_tokens_job", "job", "attempt"),
    sqlite_autoincrement=True,
)

settings = Table(
    "settings",
    metadata,
    Column("key", Words, primary_key=True),
    Column("value", Json),
)

roles = Table(
    "roles",
    metadata,
    Column("role", Words, primary_key=True),
    Column("holder", Words),  # NULL: given back
    Column("fence", Big, nullable=False),  # only ever grows
    Column("renewed_at", Time, nullable=False),
    Column("ttl", Time, nullable=False),
)

# Where each user wants notices of the ends of their jobs sent.
subscriptions = Table(
    "subscriptions",
    metadata,
    Column("user", Words, primary_key=True),
    Column("addresses", Several, nullable=False),
    Column("given", Several, nullable=False),  # those that an administrator gave: no rule needs to cover them
    Column("secret", Words, nullable=False),  # signs webhooks, so it is kept as it is; "": none was made yet
)

notices = Table(
    "notices",
    metadata,
    Column("serial", Big, Identity(), primary_key=True),
    Column("user", Words, nullable=False),
    Column("address", Words, nullable=False),
    Column("content", Json, nullable=False),  # whole: the job may be forgotten before it is sent
    Column("created_at", Time, nullable=False),
    Column("state", String(16), nullable=False),  # waiting, sent, given up
    Column("tries", Integer, nullable=False),
    Column("due_at", Time, nullable=False),  # when it is tried next
    Column("problem", Words, nullable=False),  # of the last try
    Index("ix_notices_due", "state", "due_at"),
    Index("ix_notices_user", "user", "serial"),
    sqlite_autoincrement=True,
)

# Which users have uploaded a project folder. The archive itself is a file, kept once however many have it.
snapshots = Table(
    "snapshots",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("owner", Big, primary_key=True, autoincrement=False),  # users.id
    Column("size", Big, nullable=False),  # bytes of the archive
    Column("uploaded_at", Time, nullable=False),
    Index("ix_snapshots_owner", "owner", "uploaded_at"),
)

# Submissions with a key: sent once more after a lost answer, they make no second job.
submissions = Table(
    "submissions",
    metadata,
    Column("owner", Big, primary_key=True, autoincrement=False),  # users.id
    Column("key", String(200), primary_key=True),
    Column("digest", String(64), nullable=False),  # of what was asked for: a key with another content is refused
    Column("job", Big, nullable=False),
    Column("at", Time, nullable=False),
    Index("ix_submissions_at", "at"),
)

# What was done by which caller. Only ever appended to, and kept longer than jobs.
audit = Table(
    "audit",
    metadata,
    Column("serial", Big, Identity(), primary_key=True),
    Column("at", Time, nullable=False),
    Column("actor", Words, nullable=False),  # the caller's name then
    Column("actor_id", Big),  # users.id; NULL: not known, or the service itself
    Column("origin", Words, nullable=False),  # the address that the call came from
    Column("action", Words, nullable=False),  # e.g. job.cancel
    Column("object", Words, nullable=False),  # e.g. job 17
    Column("owner", Words, nullable=False),  # the user whose it is; "": none
    Column("outcome", Words, nullable=False),  # done, or why it was refused
    Column("data", Json, nullable=False),
    Index("ix_audit_actor", "actor", "serial"),
    Index("ix_audit_at", "at"),
    sqlite_autoincrement=True,
)
