"""What workers use over time, thinned as metrics are. Counters are kept as they are, so that the mean rate between any
two points that are left is exact."""

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.core.domain.usage import Limits, Usage
from schedulearn.store.base import Part, count, in_chunks, of_worker, same_worker
from schedulearn.store.codec import Values, made, values
from schedulearn.store.tables import leases, usage, usage_points, workers
from schedulearn.store.thinning import points_each, reading_stride, stride_at
from schedulearn.store.types import UsageSample, WorkerUsage


class Usages(Part):
    def add_usage(self, samples: Sequence[UsageSample]) -> None:
        """Take in one look at each of these workers. Workers that are no longer known are left out."""
        with self._db.write() as connection:
            known = _known(connection, {sample.worker.job for sample in samples})
            rows = [_next(known[sample.worker], sample) for sample in samples if sample.worker in known]
            if not rows:
                return
            connection.execute(self._db.upsert(usage), rows)
            for row in rows:
                before = known[_worker(row)]
                if before is not None and before.stride != row["stride"]:
                    gone = of_worker(usage_points, _worker(row)) & (usage_points.c.ordinal % row["stride"] != 0)
                    connection.execute(sa.delete(usage_points).where(gone))
            if kept := [_point(row) for row in rows if (row["total"] - 1) % row["stride"] == 0]:
                connection.execute(sa.insert(usage_points), kept)

    def usage_of(
        self,
        job: JobId,
        attempt: int,
        since: float | None = None,
        max_points: int = 500,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[WorkerUsage]:
        """What the workers of an attempt use, or some of them, by rank; so many points each at most, of many workers
        fewer, the latest always there."""
        mine = (usage.c.job == job) & (usage.c.attempt == attempt)
        page = sa.select(usage).where(mine).order_by(usage.c.rank).limit(limit).offset(offset)
        with self._db.read() as connection:
            rows = connection.execute(page).all()
            most = points_each(max_points, len(rows))
            return [_curve(connection, row, since, most) for row in rows]

    def usage_count(self, job: JobId, attempt: int) -> int:
        """Of how many workers of an attempt it is known what they use."""
        mine = (usage.c.job == job) & (usage.c.attempt == attempt)
        with self._db.read() as connection:
            return count(connection, usage, mine)

    def usage_now(self) -> list[WorkerUsage]:
        """The latest look at each worker that has a lease."""
        ordered = [usage.c[name] for name in WorkerId._fields]
        query = sa.select(usage).join(leases, same_worker(usage, leases)).order_by(*ordered)
        with self._db.read() as connection:
            return [_summary(row) for row in connection.execute(query)]


def _known(connection: sa.Connection, jobs: Iterable[JobId]) -> dict[WorkerId, sa.Row[Any] | None]:
    """The workers of these jobs, each with its row of usage if it has one."""
    columns = [workers.c[name].label(f"worker_{name}") for name in WorkerId._fields]
    wanted: sa.Select[Any] = sa.select(*columns, usage.c.total, usage.c.stride, usage.c.memory_peak)
    query = wanted.outerjoin_from(workers, usage, same_worker(usage, workers))
    found: dict[WorkerId, sa.Row[Any] | None] = {}
    for some in in_chunks(jobs):
        for row in connection.execute(query.where(workers.c.job.in_(some))):
            worker = WorkerId(JobId(row.worker_job), row.worker_attempt, row.worker_rank)
            found[worker] = None if row.total is None else row
    return found


def _next(before: sa.Row[Any] | None, sample: UsageSample) -> Values:
    """The row of a worker after one more look."""
    ordinal, stride, peak = (before.total, before.stride, before.memory_peak) if before else (0, 1, None)
    limits = sample.usage.limits
    seen = [memory for memory in (peak, sample.usage.memory) if memory is not None]
    return {
        **sample.worker._asdict(),
        "total": ordinal + 1,
        "stride": stride_at(ordinal, stride),
        "cpus": sample.cpus,
        "memory_peak": max(seen, default=None),
        **values(sample.usage, usage),
        "cpus_limit": limits.cpus,
        "weight": limits.weight,
        "memory_limit": limits.memory,
    }


def _look(row: sa.Row[Any]) -> Usage:
    return made(Usage, row, limits=Limits(row.cpus_limit, row.weight, row.memory_limit))


def _point(row: Values) -> Values:
    point = {name: row[name] for name in usage_points.c.keys() if name != "ordinal"}  # noqa: SIM118
    return {**point, "ordinal": row["total"] - 1}


def _summary(row: sa.Row[Any], points: Sequence[Usage] = ()) -> WorkerUsage:
    return WorkerUsage(WorkerId(row.job, row.attempt, row.rank), _look(row), row.cpus, row.memory_peak, tuple(points))


def _curve(connection: sa.Connection, row: sa.Row[Any], since: float | None, most: int) -> WorkerUsage:
    latest, point = _look(row), usage_points.c
    if most <= 1 or (since is not None and row.at < since):
        return _summary(row, [] if since is not None and row.at < since else [latest])
    mine = of_worker(usage_points, WorkerId(row.job, row.attempt, row.rank))
    first = 0
    if since is not None:
        mine &= point.at >= since
        first = connection.execute(sa.select(sa.func.min(point.ordinal)).where(mine)).scalar() or 0
    stride = reading_stride(row.total - first, row.stride, most)
    query = sa.select(usage_points).where(mine, point.ordinal % stride == 0).order_by(point.ordinal)
    looks = [_look(found) for found in connection.execute(query)]
    if not looks or looks[-1] != latest:
        looks.append(latest)
    return _summary(row, looks[-most:])


def _worker(row: Values) -> WorkerId:
    return WorkerId(row["job"], row["attempt"], row["rank"])
