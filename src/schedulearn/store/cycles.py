"""What the scheduler reads when it starts, and writes in each cycle."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.node import Node
from schedulearn.store import codec
from schedulearn.store.base import Part, in_chunks
from schedulearn.store.engine import Database
from schedulearn.store.fleet import read_leases, read_nodes
from schedulearn.store.history import last_serial
from schedulearn.store.jobs import UNFINISHED, read_attempts
from schedulearn.store.roles import check_fence
from schedulearn.store.settings import read_setting
from schedulearn.store.tables import (
    attempts,
    devices,
    events,
    jobs,
    lease_devices,
    leases,
    nodes,
    requests,
    settings,
    tokens,
    workers,
)
from schedulearn.store.types import Cycle, SavedState

_MEMORY = "memory"  # the settings that a state is loaded with
_POLICY = "policy"
_SHARES = "shares:"  # and the name of a node


class Cycles(Part):
    def load_state(self, since: int | None = None) -> SavedState:
        """All that the scheduler needs to go on where it, or its predecessor, stopped.

        With `since`, the serial of an event: of the jobs only those that something has happened to after it.
        """
        present = UNFINISHED & (attempts.c.number == jobs.c.attempt) & attempts.c.ended_at.is_(None)
        with self._db.read() as connection:
            return SavedState(
                jobs=_load_jobs(connection) if since is None else _load_changed(connection, since),
                attempts=read_attempts(connection, present),
                leases=read_leases(connection),
                nodes=read_nodes(connection),
                memory=read_setting(connection, _MEMORY, {}),
                policy=read_setting(connection, _POLICY, None),
                shares=_load_shares(connection),
                serial=last_serial(connection),
                unfinished=None if since is None else _left_after_deletions(connection, since),
            )

    def shares(self) -> dict[NodeName, dict[str, Any]]:
        """What the share loop of each node remembers, of those that remember anything."""
        with self._db.read() as connection:
            return _load_shares(connection)

    def save_cycle(self, cycle: Cycle) -> None:
        """Write what a cycle changed, whole or not at all. Attempts that have ended lose their tokens.

        RoleTaken if the scheduler's role has another fence by now; Conflict if the database refuses a row,
        such as a second lease of one device.
        """
        with self._db.write() as connection:
            check_fence(connection, "scheduler", cycle.fence)
            self._save_jobs(connection, cycle)
            _save_leases(connection, cycle)
            _save_nodes(connection, self._db, cycle.nodes)
            if cycle.nodes_removed:
                connection.execute(sa.delete(nodes).where(nodes.c.name.in_(cycle.nodes_removed)))
                gone = [_SHARES + name for name in cycle.nodes_removed]
                connection.execute(sa.delete(settings).where(settings.c.key.in_(gone)))
            _insert(connection, events, [codec.values(event, events) for event in cycle.events])
            _forget(connection, cycle.forgotten)
            for some in in_chunks(cycle.requests_done):
                connection.execute(sa.delete(requests).where(requests.c.serial.in_(some)))
            if cycle.memory is not None:
                connection.execute(self._db.upsert(settings), {"key": _MEMORY, "value": cycle.memory})
            kept = [{"key": _SHARES + node, "value": memory} for node, memory in cycle.shares.items()]
            _execute(connection, self._db.upsert(settings), kept)

    def _save_jobs(self, connection: sa.Connection, cycle: Cycle) -> None:
        changed = [{"job_id": job.id, **codec.job_changes(job)} for job in cycle.jobs]
        tried = [codec.values(attempt, attempts) for attempt in cycle.attempts]
        members = [codec.values(worker, workers) for attempt in cycle.attempts for worker in attempt.workers]
        _execute(connection, sa.update(jobs).where(jobs.c.id == sa.bindparam("job_id")), changed)
        _execute(connection, self._db.upsert(attempts), tried)
        _execute(connection, self._db.upsert(workers), members)
        over = [attempt.id for attempt in cycle.attempts if attempt.ended_at is not None]
        own = (tokens.c.job == sa.bindparam("j")) & (tokens.c.attempt == sa.bindparam("a"))
        _execute(connection, sa.delete(tokens).where(own), [{"j": id.job, "a": id.number} for id in over])


def _load_jobs(connection: sa.Connection) -> list[Job]:
    loaded = [codec.job_from(row) for row in connection.execute(sa.select(jobs).where(UNFINISHED))]
    awaited = {id for job in loaded for id in job.spec.depends_on} - {job.id for job in loaded}
    return sorted(loaded + _jobs_by_id(connection, awaited), key=lambda job: job.id)


def _load_changed(connection: sa.Connection, since: int) -> list[Job]:
    # Each change of a job is an event in the same transaction.
    happened = sa.select(events.c.job).where(events.c.serial > since, events.c.job.is_not(None)).distinct()
    return _jobs_by_id(connection, connection.scalars(happened))


def _left_after_deletions(connection: sa.Connection, since: int) -> frozenset[JobId] | None:
    """All unfinished jobs, if any job was deleted: the events of such a job are, too."""
    deleted = sa.select(events.c.serial).where(events.c.serial > since, events.c.kind == "deleted").limit(1)
    if connection.scalar(deleted) is None:
        return None
    return frozenset(JobId(id) for id in connection.scalars(sa.select(jobs.c.id).where(UNFINISHED)))


def _load_shares(connection: sa.Connection) -> dict[NodeName, dict[str, Any]]:
    key, value = settings.c.key, settings.c.value
    rows = connection.execute(sa.select(key, value).where(key.startswith(_SHARES, autoescape=True))).all()
    return {NodeName(row.key.removeprefix(_SHARES)): row.value for row in rows if row.value is not None}


def _jobs_by_id(connection: sa.Connection, ids: Iterable[int]) -> list[Job]:
    found: list[Job] = []
    for some in in_chunks(sorted(ids)):
        found += [codec.job_from(row) for row in connection.execute(sa.select(jobs).where(jobs.c.id.in_(some)))]
    return found


def _save_leases(connection: sa.Connection, cycle: Cycle) -> None:
    """Ends come first, also those of leases that change, so that a device can change hands in one cycle."""
    table = leases.c
    key = (table.job == sa.bindparam("j")) & (table.attempt == sa.bindparam("a")) & (table.rank == sa.bindparam("r"))
    changed = {lease.worker: lease for lease in cycle.leases_changed}
    over = {*cycle.leases_ended, *changed}  # a lease that was made and ended since the last cycle never shows
    gone = [{"j": w.job, "a": w.attempt, "r": w.rank} for w in over]
    _execute(connection, sa.delete(leases).where(key), gone)
    held = [lease for lease in cycle.leases_added if lease.worker not in over]
    held += [lease for lease in changed.values() if lease.worker not in cycle.leases_ended]
    _insert(connection, leases, [codec.values(lease, leases) for lease in held])
    taken = [{"device": device, **lease.worker._asdict()} for lease in held for device in lease.devices]
    _insert(connection, lease_devices, taken)


def _save_nodes(connection: sa.Connection, database: Database, changed: list[Node]) -> None:
    if not changed:
        return
    connection.execute(database.upsert(nodes), [codec.values(node, nodes) for node in changed])
    connection.execute(sa.delete(devices).where(devices.c.node.in_([node.name for node in changed])))
    _insert(connection, devices, [values for node in changed for values in codec.device_values(node)])


def _forget(connection: sa.Connection, forgotten: list[JobId]) -> None:
    """Delete the jobs with all that is theirs. Of their history only the event "deleted" stays."""
    for some in in_chunks(forgotten):
        connection.execute(sa.delete(jobs).where(jobs.c.id.in_(some)))  # the database deletes what refers to them
        connection.execute(sa.delete(tokens).where(tokens.c.job.in_(some)))
        connection.execute(sa.delete(events).where(events.c.job.in_(some), events.c.kind != "deleted"))


def _insert(connection: sa.Connection, table: sa.Table, rows: list[codec.Values]) -> None:
    _execute(connection, sa.insert(table), rows)


def _execute(connection: sa.Connection, statement: sa.Executable, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(statement, rows)
