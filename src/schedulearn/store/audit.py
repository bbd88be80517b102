"""The audit log: what was done by which caller, and from where. Rows are only ever added; the oldest go with time.

Store methods that are an act of a caller write their line in their own transaction: both are kept, or neither. The
caller is named where the call is taken (`acting`); what the service does by itself is in the history, not here.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from schedulearn.store.base import Part
from schedulearn.store.tables import audit
from schedulearn.store.types import Actor, AuditEntry

DONE = "done"
acting: ContextVar[Actor | None] = ContextVar("acting", default=None)


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries; None: whichever."""

    actor: str | None = None
    action: str | None = None  # also the first part of it: `job` for `job.cancel`
    object: str | None = None
    owner: str | None = None
    since: float | None = None
    until: float | None = None
    before: int | None = None  # only those with a smaller serial number


class Audit(Part):
    def note_act(self, action: str, object: str, owner: str = "", **data: Any) -> None:
        """Of what is not kept in the store itself."""
        with self._db.write() as connection:
            record_act(connection, action, object, owner, **data)

    def add_audit(
        self, actor: Actor, action: str, object: str, owner: str = "", outcome: str = DONE, **data: Any
    ) -> None:
        """By a caller that is named, and of what was refused."""
        with self._db.write() as connection:
            _insert(connection, actor, action, object, owner, outcome, data)

    def audit(self, wanted: AuditFilter, limit: int) -> list[AuditEntry]:
        """The newest first."""
        query = sa.select(audit).where(*_conditions(wanted)).order_by(audit.c.serial.desc()).limit(limit)
        return self._all(AuditEntry, query)

    def drop_audit(self, before: float) -> int:
        """Those that are older; how many these were."""
        with self._db.write() as connection:
            return connection.execute(sa.delete(audit).where(audit.c.at < before)).rowcount


def record_act(connection: sa.Connection, action: str, object: str, owner: str = "", **data: Any) -> None:
    """In the transaction of the act itself. Nothing without a caller: what the service does is its history."""
    if actor := acting.get():
        _insert(connection, actor, action, object, owner, DONE, data)


def _insert(
    connection: sa.Connection, actor: Actor, action: str, object: str, owner: str, outcome: str, data: dict[str, Any]
) -> None:
    who = {"actor": actor.name, "actor_id": actor.id, "origin": actor.origin, "at": actor.at}
    what = {"action": action, "object": object, "owner": owner, "outcome": outcome, "data": data}
    connection.execute(sa.insert(audit), {**who, **what})


def _conditions(wanted: AuditFilter) -> list[sa.ColumnElement[bool]]:
    at, action = audit.c.at, audit.c.action
    tests: list[tuple[Any, Callable[[Any], sa.ColumnElement[bool]]]] = [
        (wanted.actor, lambda actor: audit.c.actor == actor),
        (wanted.object, lambda object: audit.c.object == object),
        (wanted.owner, lambda owner: audit.c.owner == owner),
        (wanted.action, lambda first: (action == first) | action.startswith(f"{first}.", autoescape=True)),
        (wanted.since, lambda since: at >= since),
        (wanted.until, lambda until: at < until),
        (wanted.before, lambda serial: audit.c.serial < serial),
    ]
    return [test(value) for value, test in tests if value is not None]
