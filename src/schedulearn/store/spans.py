"""Where and when workers ran: the time of each on its node, for the timeline."""

from typing import Any

import sqlalchemy as sa

from schedulearn.core.domain.ids import WorkerId
from schedulearn.store.base import Part, count
from schedulearn.store.tables import attempts, jobs, workers
from schedulearn.store.types import Span, Timeline

_ENDED = sa.func.coalesce(workers.c.ended_at, attempts.c.ended_at)  # of a lost worker no end is known
_OWN = (workers.c.job == attempts.c.job) & (workers.c.attempt == attempts.c.number)
_COLUMNS = (  # the worker's id, then the other fields of a span in their order
    workers.c.job,
    workers.c.attempt,
    workers.c.rank,
    workers.c.node,
    workers.c.devices,
    workers.c.started_at,
    workers.c.outcome,
    jobs.c.name,
    jobs.c.user,
    attempts.c.stop,
    _ENDED.label("until"),
)
_NEWEST = (workers.c.started_at.desc(), workers.c.job.desc(), workers.c.rank)


class Spans(Part):
    def timeline(self, since: float, until: float, limit: int) -> Timeline:
        """Workers that ran at some time between the two moments; of more than `limit` those that began last."""
        # Says nothing new, but the workers of jobs that were over long before are then not even looked at.
        late = sa.select(jobs.c.id).where(jobs.c.finished_at.is_(None) | (jobs.c.finished_at >= since))
        wanted = sa.and_(workers.c.started_at < until, _ENDED.is_(None) | (since <= _ENDED), workers.c.job.in_(late))
        ran = workers.join(attempts, _OWN)
        named = ran.join(jobs, jobs.c.id == workers.c.job)
        found: sa.Select[Any] = sa.select(*_COLUMNS).select_from(named).where(wanted).order_by(*_NEWEST).limit(limit)
        with self._db.read() as connection:
            total = count(connection, ran, wanted)
            first = connection.execute(sa.select(sa.func.min(jobs.c.submitted_at))).scalar()
            spans = [Span(WorkerId(*row[:3]), *row[3:]) for row in connection.execute(found)]
        return Timeline(spans, total, first)
