"""Who ran where and when: the time of each worker on its node, for the timeline."""

import sqlalchemy as sa

from schedulearn.store.base import Part
from schedulearn.store.codec import worker_from
from schedulearn.store.tables import attempts, jobs, workers
from schedulearn.store.types import Span, Timeline


class Spans(Part):
    def timeline(self, since: float, until: float, limit: int) -> Timeline:
        """Workers that ran at some time between the two moments; of more than `limit` those that began last."""
        ended = sa.func.coalesce(workers.c.ended_at, attempts.c.ended_at)  # of a lost worker no end is known
        own = (workers.c.job == attempts.c.job) & (workers.c.attempt == attempts.c.number)
        whole = workers.join(attempts, own).join(jobs, jobs.c.id == workers.c.job)
        # Says nothing new, but the workers of jobs that were over long before are then not even looked at.
        late = sa.select(jobs.c.id).where(jobs.c.finished_at.is_(None) | (jobs.c.finished_at >= since))
        wanted = sa.and_(workers.c.started_at < until, ended.is_(None) | (ended >= since), workers.c.job.in_(late))
        columns = (workers, jobs.c.name, jobs.c.user, attempts.c.stop, ended.label("until"))
        newest = (workers.c.started_at.desc(), workers.c.job.desc(), workers.c.rank)
        found = sa.select(*columns).select_from(whole).where(wanted).order_by(*newest).limit(limit)
        with self._db.read() as connection:
            total = connection.execute(sa.select(sa.func.count()).select_from(whole).where(wanted)).scalar_one()
            first = connection.execute(sa.select(sa.func.min(jobs.c.submitted_at))).scalar()
            spans = [Span(worker_from(r), r.name, r.user, r.stop, r.until) for r in connection.execute(found)]
        return Timeline(spans, int(total), first)
