"""The log of events, for reading: it is followed by serial number, which a clock that jumps cannot upset."""

import sqlalchemy as sa

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import HistoryEvent
from schedulearn.store.base import Part
from schedulearn.store.codec import made, values
from schedulearn.store.tables import events
from schedulearn.store.types import StoredEvent


class History(Part):
    def events_after(self, serial: int, job: JobId | None = None, limit: int = 1000) -> list[StoredEvent]:
        """The next events, in their order."""
        query = sa.select(events).where(events.c.serial > serial)
        if job is not None:
            query = query.where(events.c.job == job)
        with self._db.read() as connection:
            rows = connection.execute(query.order_by(events.c.serial).limit(limit)).all()
        return [StoredEvent(row.serial, made(HistoryEvent, row)) for row in rows]

    def note_once(self, event: HistoryEvent, same_cause: bool = False) -> None:
        """Add it to the story of its job, unless one of its kind (with the `same_cause`) is there already."""
        same = sa.select(events.c.serial).where(events.c.job == event.job, events.c.kind == event.kind).limit(1)
        if same_cause:
            same = same.where(events.c.cause == event.cause)
        with self._db.write() as connection:
            if connection.execute(same).first() is None:
                connection.execute(sa.insert(events), values(event, events))

    def last_event_serial(self) -> int:
        """0 if nothing ever happened."""
        with self._db.read() as connection:
            return last_serial(connection)


def last_serial(connection: sa.Connection) -> int:
    return connection.execute(sa.select(sa.func.max(events.c.serial))).scalar() or 0
