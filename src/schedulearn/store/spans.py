"""Who ran where and when: the time of each worker on its node, for the timeline."""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from schedulearn.core.domain.ids import DeviceId, JobId, NodeName, WorkerId
from schedulearn.core.domain.outcome import Outcome
from schedulearn.store.base import Part
from schedulearn.store.codec import outcome_from
from schedulearn.store.tables import attempts, jobs, workers
from schedulearn.store.types import Span, Timeline

_ENDED = sa.func.coalesce(workers.c.ended_at, attempts.c.ended_at)  # of a lost worker no end is known
_OWN = (workers.c.job == attempts.c.job) & (workers.c.attempt == attempts.c.number)
# There may be thousands, most of them alike: what is JSON is read once for each text.
_COLUMNS = (
    workers.c.job,
    workers.c.attempt,
    workers.c.rank,
    workers.c.node,
    sa.type_coerce(workers.c.devices, sa.Text()).label("devices"),
    sa.type_coerce(workers.c.outcome, sa.Text()).label("outcome"),
    workers.c.started_at,
    _ENDED.label("until"),
    attempts.c.stop,
    jobs.c.name,
    jobs.c.user,
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
        found = sa.select(*_COLUMNS).select_from(named).where(wanted).order_by(*_NEWEST).limit(limit)
        with self._db.read() as connection:
            total = connection.execute(sa.select(sa.func.count()).select_from(ran).where(wanted)).scalar_one()
            first = connection.execute(sa.select(sa.func.min(jobs.c.submitted_at))).scalar()
            spans = [_span_from(row) for row in connection.execute(found)]
        return Timeline(spans, int(total), first)


def _span_from(row: Sequence[Any]) -> Span:
    job, attempt, rank, node, devices, outcome, started_at, until, stop, name, user = row
    worker = WorkerId(JobId(job), attempt, rank)
    return Span(worker, NodeName(node), _devices(devices), started_at, _outcome(outcome), name, user, stop, until)


@lru_cache(1000)
def _devices(text: str) -> tuple[DeviceId, ...]:
    return tuple(DeviceId(device) for device in json.loads(text))


@lru_cache(1000)
def _outcome(text: str | None) -> Outcome | None:
    return outcome_from(json.loads(text)) if text else None
