"""Metrics: what jobs report, thinned so that a million points stay quick to store and to read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from schedulearn.core.domain.errors import NotFound
from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.store.appending import LONGEST_NAME, SeriesKey, append
from schedulearn.store.base import Part, count, in_chunks, of_worker
from schedulearn.store.codec import Values
from schedulearn.store.columns import clamp
from schedulearn.store.tables import metric_points, metric_series, workers
from schedulearn.store.thinning import points_each, reading_stride
from schedulearn.store.types import (
    GIVEN_UP,
    Curve,
    CurvePoint,
    Found,
    Mark,
    News,
    OutputPlace,
    Point,
    Progress,
    Series,
    Source,
    Taken,
)

_CONDITIONS = 500  # in one statement: SQLite takes no more than a thousand
_SEEN: dict[Source, sa.Column[Any]] = {"report": workers.c.report_seq, "pattern": workers.c.pattern_seq}
# What is asked every second is put together once: each time, that would take SQLAlchemy about as long as asking it.
_MARKS = sa.select(workers.c.job, workers.c.attempt, workers.c.rank, workers.c.pattern_seq).where(
    workers.c.job.in_(sa.bindparam("jobs", expanding=True))
)
_OF = sa.update(workers).where(*(workers.c[name] == sa.bindparam(f"of_{name}") for name in WorkerId._fields))
_CLAIM = _OF.values(pattern_tries=workers.c.pattern_tries + 1)
_READ = _OF.values(pattern_seq=sa.bindparam("seq"), pattern_offset=sa.bindparam("offset"), pattern_tries=0)


class Metrics(Part):
    def add_points(
        self,
        job: JobId,
        attempt: int,
        rank: int,
        source: Source,
        points: Sequence[Point],
        series_rank: int | None = None,
    ) -> Taken:
        """Take in what a worker reported, or what was found in its output or its event files.

        A point whose `seq` is not above all that came before from this worker and source was seen already. Those of
        event files have none: they are in order of time, and one that is not later than the series was seen already.
        A metric that the job reports is not also read from its files, and one in files not from its output.
        They go into the worker's own series, or into that of `series_rank`.
        """
        worker = WorkerId(job, attempt, rank)
        with self._db.write() as connection:
            new = self._unseen(connection, worker, source, points)
            place = rank if series_rank is None else series_rank
            return append(connection, source, [(SeriesKey(job, place, point.name), point) for point in new])

    def add_found(self, found: Sequence[Found]) -> None:
        """Take in what was found in the output of workers, and how far it was read, all in one transaction.

        Of a job only one worker is read at a time: its curve goes on when another one leads. Workers that are no
        longer known are left out.
        """
        with self._db.write() as connection:
            marks = _pattern_marks(connection, {one.worker.job for one in found})
            known = [one for one in found if one.worker in marks]
            new = {one.worker: _after(marks[one.worker], _tidy(one.points)) for one in known}
            if known:
                connection.execute(_READ, [_read_until(one, marks[one.worker], new[one.worker]) for one in known])
            points = [(SeriesKey(worker.job, 0, point.name), point) for worker in new for point in new[worker]]
            append(connection, "pattern", points)

    def _unseen(
        self, connection: sa.Connection, worker: WorkerId, source: Source, points: Sequence[Point]
    ) -> list[Point]:
        """The new ones among the points, in order; from now on they count as seen."""
        column = _SEEN.get(source, workers.c.rank)
        mark = connection.execute(sa.select(column).where(of_worker(workers, worker))).scalar()
        if mark is None:
            raise NotFound(f"there is no worker {worker}")
        if source not in _SEEN:
            return _tidy(points)
        new = _after(mark, _tidy(points))
        if new:
            connection.execute(sa.update(workers).where(of_worker(workers, worker)).values({column: new[-1].seq}))
        return new

    def curve(self, job: JobId, name: str, max_points: int = 500) -> list[CurvePoint]:
        """The curve in the order in which it came, at most so many points, the first and the latest always there."""
        curves, _ = self.curves(job, name, max_points, limit=1)
        return curves[0].points if curves else []

    def curves(
        self, job: JobId, name: str | None = None, max_points: int = 500, limit: int = 100, offset: int = 0
    ) -> tuple[list[Curve], int]:
        """Some of a job's curves, by name, and how many it has; so many points each at most, of many curves fewer."""
        with self._db.read() as connection:
            total = count(connection, _speaking(job, name).subquery())
            rows = _series_rows(connection, job, name, limit, offset)
            points = _thinned(connection, rows, points_each(max_points, len(rows)))
        return [Curve(_series_from(row), points[row.id]) for row in rows], total

    def first_progress(self, job: JobId, since: float) -> float | None:
        """When the first value came of those that came since then; of a thinned curve, of those that are left."""
        series, point = metric_series.c, metric_points.c
        early = sa.select(sa.func.min(point.at)).join(metric_series, series.id == point.series)
        early = early.where(series.job == job, series.updated_at >= since, point.at >= since)
        latest = sa.select(sa.func.min(series.updated_at)).where(series.job == job, series.updated_at >= since)
        with self._db.read() as connection:
            times = [connection.execute(query).scalar() for query in (early, latest)]
        return min((time for time in times if time is not None), default=None)

    def latest_steps(self, metrics: Mapping[JobId, str]) -> dict[JobId, tuple[int, float]]:
        """The last step of each of these jobs, by the metric that it names, and when that was."""
        with self._db.read() as connection:
            named = sorted(named_series(connection, metrics), key=lambda row: row.updated_at)
        return {JobId(row.job): (row.last_step, row.updated_at) for row in named}

    def news(self, marks: Mapping[JobId, Mark]) -> dict[JobId, News]:
        """What came of each of these jobs since its mark; without those of which nothing did."""
        found: dict[JobId, News] = {}
        with self._db.read() as connection:
            for some in in_chunks(marks, _CONDITIONS):
                rows = _changed_since(connection, {JobId(job): marks[JobId(job)] for job in some})
                points = _points_since(connection, {row.id: marks[JobId(row.job)] for row in rows})
                for row in rows:
                    mark, kept = marks[JobId(row.job)], points.get(row.id, [])
                    if (row.total - 1) % row.stride and row.updated_at >= mark.since:
                        kept.append(CurvePoint(row.last_step, row.last_value, row.updated_at))
                    found[JobId(row.job)] = News(progress_from(row), kept)
        return found

    def latest_values(self, metrics: Mapping[JobId, str], count: int) -> dict[JobId, list[float]]:
        """The last few values of the metric that each of these jobs names, the newest last; of a thinned curve those
        that are kept, and the newest. Of several workers, one speaks for the job. One query for hundreds of jobs."""
        series, point = metric_series.c, metric_points.c
        late = (point.series == series.id) & (point.ordinal >= series.total - count * series.stride)
        wanted = [series.job, series.name, series.rank, series.total, series.stride, series.last_value]
        both = metric_series.outerjoin(metric_points, late)
        values: dict[JobId, list[float]] = {}
        with self._db.read() as connection:
            for some in in_chunks(metrics):
                names = sorted({name[:LONGEST_NAME] for name in metrics.values()})
                query = sa.select(*wanted, point.ordinal, point.value).select_from(both)
                query = query.where(series.job.in_(some), series.name.in_(names))
                rows = connection.execute(query.order_by(series.rank.desc(), series.id, point.ordinal)).all()
                for (number, name, _), points in groupby(rows, lambda row: (row.job, row.name, row.rank)):
                    if name == metrics[JobId(number)][:LONGEST_NAME]:
                        values[JobId(number)] = _with_newest([*points])[-count:]
        return values

    def series_of(self, job: JobId, name: str | None = None, limit: int = 100, offset: int = 0) -> list[Series]:
        """Some metrics of a job, by name. Of several workers, one speaks for the job."""
        with self._db.read() as connection:
            return [_series_from(row) for row in _series_rows(connection, job, name, limit, offset)]

    def last_step(self, job: JobId, name: str) -> int:
        """0 if nothing is known of this metric."""
        return next((series.step for series in self.series_of(job, name, limit=1)), 0)

    def give_up_output(self, worker: WorkerId) -> None:
        """From now on its output is not searched for metrics."""
        with self._db.write() as connection:
            connection.execute(sa.update(workers).where(of_worker(workers, worker)).values(pattern_offset=GIVEN_UP))

    def claim_output(self, claimed: Iterable[WorkerId]) -> None:
        """The output of these workers is about to be searched from where it was searched before; `add_found` says that
        this came to its end."""
        with self._db.write() as connection:
            connection.execute(_CLAIM, [_of(worker) for worker in claimed])

    def output_place(self, worker: WorkerId) -> OutputPlace:
        wanted = sa.select(workers.c.pattern_offset, workers.c.pattern_tries)
        with self._db.read() as connection:
            row = connection.execute(wanted.where(of_worker(workers, worker))).one_or_none()
        return OutputPlace(*row) if row else OutputPlace(0, 0)


def _tidy(points: Iterable[Point]) -> list[Point]:
    return [p._replace(seq=clamp(p.seq), step=clamp(p.step), name=_shown(p.name)) for p in points]


def _shown(name: str) -> str:
    """Names come from files of the job too: none may hold what would act on a terminal."""
    name = name[:LONGEST_NAME]
    return name if name.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)


def _speaking(job: JobId, name: str | None) -> sa.Select[Any]:
    """Each metric of a job with the lowest rank that has it: that worker speaks for the job."""
    series = metric_series.c
    wanted = sa.select(series.name, sa.func.min(series.rank).label("rank")).where(series.job == job)
    if name is not None:
        wanted = wanted.where(series.name == name[:LONGEST_NAME])
    return wanted.group_by(series.name)


def _series_rows(
    connection: sa.Connection, job: JobId, name: str | None, limit: int, offset: int
) -> Sequence[sa.Row[Any]]:
    series = metric_series.c
    page = _speaking(job, name).order_by(series.name).limit(limit).offset(offset).subquery()
    same = (series.name == page.c.name) & (series.rank == page.c.rank)
    query = sa.select(metric_series).join(page, same).where(series.job == job).order_by(series.name)
    return connection.execute(query).all()


def _thinned(connection: sa.Connection, rows: Sequence[sa.Row[Any]], most: int) -> dict[int, list[CurvePoint]]:
    """The points of each of these series, by its number: at most so many, the first and the latest always there."""
    found: dict[int, list[CurvePoint]] = {row.id: [] for row in rows}
    strides = {row.id: reading_stride(row.total, row.stride, most) for row in rows} if most > 1 else {}
    if strides:
        point = metric_points.c
        stride = sa.case(strides, value=point.series)
        query = sa.select(point.series, point.step, point.value, point.at)
        query = query.where(point.series.in_(strides), point.ordinal % stride == 0)
        for one in connection.execute(query.order_by(point.series, point.ordinal)):
            found[one.series].append(CurvePoint(one.step, one.value, one.at))
    for row in rows:
        if row.id not in strides or (row.total - 1) % strides[row.id] != 0:
            found[row.id].append(CurvePoint(row.last_step, row.last_value, row.updated_at))
    return found


def _after(mark: int, points: Iterable[Point]) -> list[Point]:
    """Those that were not seen yet, each once, in order."""
    new = {(p.seq, p.name): p for p in points if p.seq > mark}
    return [new[key] for key in sorted(new)]


def _pattern_marks(connection: sa.Connection, jobs: Iterable[JobId]) -> dict[WorkerId, int]:
    """Of the workers of these jobs, up to where the points of their output were seen."""
    return {
        WorkerId(JobId(job), attempt, rank): seq
        for some in in_chunks(jobs)
        for job, attempt, rank, seq in connection.execute(_MARKS, {"jobs": some})
    }


def _read_until(one: Found, mark: int, new: Sequence[Point]) -> Values:
    return {**_of(one.worker), "seq": new[-1].seq if new else mark, "offset": one.offset}


def _of(worker: WorkerId) -> Values:
    return {f"of_{name}": value for name, value in worker._asdict().items()}


def _changed_since(connection: sa.Connection, marks: Mapping[JobId, Mark]) -> list[sa.Row[Any]]:
    """The series of the named metrics that have grown; of several workers, that of the one which speaks for the job."""
    named = {row.job: row for row in named_series(connection, {job: mark.metric for job, mark in marks.items()})}
    return [row for row in named.values() if row.total != marks[JobId(row.job)].known]


def _points_since(connection: sa.Connection, marks: Mapping[int, Mark]) -> dict[int, list[CurvePoint]]:
    """By the number of the series."""
    point = metric_points.c
    new = [
        (point.series == series) & (point.ordinal >= mark.known) & (point.at >= mark.since)
        for series, mark in marks.items()
    ]
    found: dict[int, list[CurvePoint]] = {}
    if new:
        query = sa.select(point.series, point.step, point.value, point.at).where(sa.or_(*new))
        for row in connection.execute(query.order_by(point.series, point.ordinal)):
            found.setdefault(row.series, []).append(CurvePoint(row.step, row.value, row.at))
    return found


def named_series(connection: sa.Connection, metrics: Mapping[JobId, str]) -> Iterator[sa.Row[Any]]:
    """Those of the metrics that these jobs name; of several workers, the one that speaks for the job comes last."""
    series = metric_series.c
    for some in in_chunks(metrics):
        names = {job: metrics[job][:LONGEST_NAME] for job in some}
        query = sa.select(metric_series).where(series.job.in_(some), series.name.in_(sorted(set(names.values()))))
        found = connection.execute(query.order_by(series.rank.desc()))
        yield from (row for row in found if row.name == names[JobId(row.job)])


def progress_from(row: sa.Row[Any]) -> Progress:
    latest_is_there = (row.total - 1) % row.spark_stride == 0
    spark = row.spark if latest_is_there else [*row.spark, row.last_value]
    return Progress(row.last_step, row.name, row.last_value, tuple(spark), row.updated_at, row.total)


def _with_newest(rows: Sequence[Any]) -> list[float]:
    """The values of one series; the newest is kept beside the others, which may not have it."""
    newest = rows[-1]
    is_kept = (newest.total - 1) % newest.stride == 0
    return [row.value for row in rows if row.ordinal is not None] + ([] if is_kept else [newest.last_value])


def _series_from(row: sa.Row[Any]) -> Series:
    return Series(
        row.name, row.source, row.total, row.last_step, row.last_value, row.min_value, row.max_value, row.updated_at
    )
