"""Notices of the ends of jobs: where users want them sent, what waits to be sent, and what became of it."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from typing import Any

import sqlalchemy as sa

from schedulearn.core.domain.job import HistoryEvent
from schedulearn.core.domain.states import FINISHED
from schedulearn.store.audit import record_act
from schedulearn.store.base import Part, count
from schedulearn.store.codec import made
from schedulearn.store.history import last_serial
from schedulearn.store.settings import read_setting
from schedulearn.store.tables import events, notices, settings, subscriptions
from schedulearn.store.types import NewNotice, Notice, NoticeState, StoredEvent, Subscription

MOST_WAITING = 1000  # of one user: further ones are dropped
_KEPT = 7 * 86400.0  # seconds that a notice is kept after it was made, once it does not wait any more
_SEEN = "notices_seen"  # the setting: the last event of which notices were made
_ENDS = sorted(FINISHED)
_WAITS = notices.c.state == "waiting"


class Notices(Part):
    # --- where to

    def subscription(self, user: str) -> Subscription:
        with self._db.read() as connection:
            return _subscription(connection, user)

    def set_addresses(self, user: str, addresses: Sequence[str], given: Sequence[str]) -> None:
        with self._db.write() as connection:
            before = _subscription(connection, user)
            self._subscribe(connection, user, replace(before, addresses=tuple(addresses), given=tuple(given)))
            record_act(connection, "notify.set", f"notices of {user}", user, addresses=len(addresses))

    def keep_secret(self, user: str, secret: str, renew: bool = False) -> str:
        """This secret if the user has none yet, or theirs is to be renewed; the one that is kept is returned."""
        with self._db.write() as connection:
            before = _subscription(connection, user)
            if before.secret and not renew:
                return before.secret
            self._subscribe(connection, user, replace(before, secret=secret))
            if renew:
                record_act(connection, "notify.secret", f"notices of {user}", user)
        return secret

    def _subscribe(self, connection: sa.Connection, user: str, to: Subscription) -> None:
        connection.execute(self._db.upsert(subscriptions), {"user": user, **asdict(to)})

    # --- what has ended

    def follow_ends(self) -> None:
        """From now on, if they were never followed: users are not told of what is long over."""
        with self._db.write() as connection:
            if read_setting(connection, _SEEN, None) is None:
                connection.execute(self._db.upsert(settings), {"key": _SEEN, "value": last_serial(connection)})

    def new_ends(self, after: int = 0, limit: int = 500) -> tuple[list[StoredEvent], int]:
        """Ends of jobs of which no notices were made yet, in their order, and the last event that was looked at.

        `after`: all events up to it were looked at. Not every look need go through the same events.
        """
        with self._db.read() as connection:
            seen = max(after, read_setting(connection, _SEEN, 0))
            query = sa.select(events).where(
                events.c.serial > seen, events.c.state.in_(_ENDS), events.c.job.is_not(None)
            )
            rows = connection.execute(query.order_by(events.c.serial).limit(limit)).all()
            last = rows[-1].serial if len(rows) == limit else last_serial(connection)
        return [StoredEvent(row.serial, made(HistoryEvent, row)) for row in rows], last

    def add_notices(self, new: Sequence[NewNotice], at: float, seen: int | None = None) -> int:
        """Keep them until they are sent, and how far the history was read: both or neither.

        A user who has too many that wait gets no more; the number of those that were dropped is returned.
        """
        with self._db.write() as connection:
            room = {
                user: MOST_WAITING - count(connection, notices, notices.c.user == user, _WAITS)
                for user in {one.user for one in new}
            }
            kept = []
            for one in new:
                room[one.user] -= 1
                if room[one.user] >= 0:
                    kept.append(_values(one, at))
            if kept:
                connection.execute(sa.insert(notices), kept)
            over = ~_WAITS & (notices.c.created_at < at - _KEPT)
            connection.execute(sa.delete(notices).where(over))
            if seen is not None:
                connection.execute(self._db.upsert(settings), {"key": _SEEN, "value": seen})
        return len(new) - len(kept)

    # --- what waits

    def due_notices(self, now: float, limit: int, without: Collection[str] = ()) -> list[Notice]:
        """The first one that is due of each user, `without` those of some."""
        first = sa.select(sa.func.min(notices.c.serial)).where(
            _WAITS, notices.c.due_at <= now, notices.c.user.not_in(list(without))
        )
        query = sa.select(notices).where(notices.c.serial.in_(first.group_by(notices.c.user)))
        return self._all(Notice, query.order_by(notices.c.due_at).limit(limit))

    def notice_tried(self, serial: int, state: NoticeState, due_at: float, problem: str) -> None:
        values = {"state": state, "due_at": due_at, "problem": problem, "tries": notices.c.tries + 1}
        with self._db.write() as connection:
            connection.execute(sa.update(notices).where(notices.c.serial == serial).values(**values))

    def notices_of(self, user: str, limit: int) -> list[Notice]:
        """The newest first."""
        query = sa.select(notices).where(notices.c.user == user)
        return self._all(Notice, query.order_by(notices.c.serial.desc()).limit(limit))


def _subscription(connection: sa.Connection, user: str) -> Subscription:
    row = connection.execute(sa.select(subscriptions).where(subscriptions.c.user == user)).one_or_none()
    return made(Subscription, row) if row else Subscription()


def _values(new: NewNotice, at: float) -> dict[str, Any]:
    return {**new._asdict(), "created_at": at, "state": "waiting", "tries": 0, "due_at": at, "problem": ""}
