"""Metrics: what jobs report, thinned so that a million points stay quick to store and to read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from schedulearn.domain.errors import NotFound
from schedulearn.domain.ids import JobId, WorkerId
from schedulearn.store.base import Part, in_chunks
from schedulearn.store.codec import Values
from schedulearn.store.columns import clamp
from schedulearn.store.tables import metric_points, metric_series, workers
from schedulearn.store.thinning import Track, reading_stride
from schedulearn.store.types import CurvePoint, Mark, News, Point, Progress, Series, Source

_LONGEST_NAME = 200  # characters; the rest is cut off, because the name is part of an index
_CONDITIONS = 500  # in one statement: SQLite takes no more than a thousand
_SEEN: dict[Source, sa.Column[Any]] = {"report": workers.c.report_seq, "pattern": workers.c.pattern_seq}
_TRUST: dict[Source, int] = {"pattern": 0, "files": 1, "report": 2}


@dataclass(slots=True)
class _Open:
    """A series that points are being added to."""

    id: int | None = None  # None: not stored yet
    source: Source | None = None
    stored_stride: int = 1  # of the points that are stored already; 0: those must go
    newest: int = 0  # when its last point was measured, in microseconds
    track: Track = field(default_factory=Track)


class Metrics(Part):
    def add_points(
        self,
        job: JobId,
        attempt: int,
        rank: int,
        source: Source,
        points: Sequence[Point],
        series_rank: int | None = None,
    ) -> int:
        """Take in what a worker reported, or what was found in its output or its event files. How many were new?

        A point whose `seq` is not above all that came before from this worker and source was seen already. Those of
        event files have none: they are in order of time, and one that is not later than the series was seen already.
        A metric that the job reports is not also read from its files, and one in files not from its output.
        They go into the worker's own series, or into that of `series_rank`.
        """
        worker = WorkerId(job, attempt, rank)
        voice = worker if series_rank is None else WorkerId(job, attempt, series_rank)
        with self._db.write() as connection:
            new = self._unseen(connection, worker, source, points)
            opened = _open_series(connection, voice, {point.name for point in new})
            taken = sum(_add(opened, source, point) for point in new)
            changed = {name: series for name, series in opened.items() if series.track.last}
            _drop_thinned(connection, changed.values())
            _save_series(connection, voice, changed)
            _insert_points(connection, changed.values())
        return taken

    def _unseen(
        self, connection: sa.Connection, worker: WorkerId, source: Source, points: Sequence[Point]
    ) -> list[Point]:
        """The new ones among the points, in order; from now on they count as seen."""
        column = _SEEN.get(source, workers.c.rank)
        mark = connection.execute(sa.select(column).where(_is(worker))).scalar()
        if mark is None:
            raise NotFound(f"there is no worker {worker}")
        tidy = [p._replace(seq=clamp(p.seq), step=clamp(p.step), name=p.name[:_LONGEST_NAME]) for p in points]
        if source not in _SEEN:
            return tidy
        new = {(p.seq, p.name): p for p in tidy if p.seq > mark}
        if new:
            seen = {column: max(seq for seq, _ in new)}
            connection.execute(sa.update(workers).where(_is(worker)).values(seen))
        return [new[key] for key in sorted(new)]

    def curve(self, job: JobId, name: str, max_points: int = 500) -> list[CurvePoint]:
        """The curve in the order in which it came, at most so many points, the first and the latest always there."""
        series = metric_series.c
        wanted = sa.select(metric_series).where(series.job == job, series.name == name[:_LONGEST_NAME])
        with self._db.read() as connection:
            row = connection.execute(wanted.order_by(metric_series.c.rank).limit(1)).one_or_none()
            if row is None:
                return []
            latest = CurvePoint(row.last_step, row.last_value, row.updated_at)
            if max_points <= 1:
                return [latest]
            stride = reading_stride(row.total, row.stride, max_points)
            point = metric_points.c
            query = sa.select(point.step, point.value, point.at).where(
                point.series == row.id, point.ordinal % stride == 0
            )
            curve = [CurvePoint(*found) for found in connection.execute(query.order_by(point.ordinal))]
        return curve if (row.total - 1) % stride == 0 else [*curve, latest]

    def first_progress(self, job: JobId, since: float) -> float | None:
        """When the first value came of those that came since then; of a thinned curve, of those that are left."""
        series, point = metric_series.c, metric_points.c
        early = sa.select(sa.func.min(point.at)).join(metric_series, series.id == point.series)
        early = early.where(series.job == job, point.at >= since)
        latest = sa.select(sa.func.min(series.updated_at)).where(series.job == job, series.updated_at >= since)
        with self._db.read() as connection:
            times = [connection.execute(query).scalar() for query in (early, latest)]
        return min((time for time in times if time is not None), default=None)

    def latest_steps(self, metrics: Mapping[JobId, str]) -> dict[JobId, tuple[int, float]]:
        """The last step of each of these jobs, by the metric that it names, and when that was."""
        series = metric_series.c
        steps: dict[JobId, tuple[int, float]] = {}
        with self._db.read() as connection:
            for some in in_chunks(metrics):
                query = sa.select(series.job, series.name, series.last_step, series.updated_at)
                for row in connection.execute(query.where(series.job.in_(some)).order_by(series.updated_at)):
                    if row.name == metrics[JobId(row.job)][:_LONGEST_NAME]:
                        steps[JobId(row.job)] = row.last_step, row.updated_at
        return steps

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
                names = sorted({name[:_LONGEST_NAME] for name in metrics.values()})
                query = sa.select(*wanted, point.ordinal, point.value).select_from(both)
                query = query.where(series.job.in_(some), series.name.in_(names))
                rows = connection.execute(query.order_by(series.rank.desc(), series.id, point.ordinal)).all()
                for (number, name, _), points in groupby(rows, lambda row: (row.job, row.name, row.rank)):
                    if name == metrics[JobId(number)][:_LONGEST_NAME]:
                        values[JobId(number)] = _with_newest([*points])[-count:]
        return values

    def series_of(self, job: JobId) -> list[Series]:
        """All metrics of a job, by name. Of several workers, one speaks for the job."""
        query = sa.select(metric_series).where(metric_series.c.job == job).order_by(metric_series.c.name)
        with self._db.read() as connection:
            rows = connection.execute(query.order_by(metric_series.c.rank.desc())).all()
        return list({row.name: _series_from(row) for row in rows}.values())

    def pattern_offset(self, worker: WorkerId) -> int:
        """How far the worker's output was searched for metrics, in bytes."""
        with self._db.read() as connection:
            return connection.execute(sa.select(workers.c.pattern_offset).where(_is(worker))).scalar() or 0

    def set_pattern_offset(self, worker: WorkerId, offset: int) -> None:
        with self._db.write() as connection:
            connection.execute(sa.update(workers).where(_is(worker)).values(pattern_offset=offset))


def _changed_since(connection: sa.Connection, marks: Mapping[JobId, Mark]) -> list[sa.Row[Any]]:
    """The series of the named metrics that have grown; of several workers, that of the one which speaks for the job."""
    series, names = metric_series.c, sorted({mark.metric[:_LONGEST_NAME] for mark in marks.values()})
    query = sa.select(metric_series).where(series.job.in_(marks), series.name.in_(names)).order_by(series.rank.desc())
    named = [row for row in connection.execute(query) if row.name == marks[JobId(row.job)].metric[:_LONGEST_NAME]]
    return [row for row in {row.job: row for row in named}.values() if row.total != marks[JobId(row.job)].known]


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


def progress_from(row: sa.Row[Any]) -> Progress:
    latest_is_there = (row.total - 1) % row.spark_stride == 0
    spark = row.spark if latest_is_there else [*row.spark, row.last_value]
    return Progress(row.last_step, row.name, row.last_value, tuple(spark), row.updated_at, row.total)


def _with_newest(rows: Sequence[Any]) -> list[float]:
    """The values of one series; the newest is kept beside the others, which may not have it."""
    newest = rows[-1]
    is_kept = (newest.total - 1) % newest.stride == 0
    return [row.value for row in rows if row.ordinal is not None] + ([] if is_kept else [newest.last_value])


def _is(worker: WorkerId) -> sa.ColumnElement[bool]:
    return (workers.c.job == worker.job) & (workers.c.attempt == worker.attempt) & (workers.c.rank == worker.rank)


def _series_from(row: sa.Row[Any]) -> Series:
    return Series(
        row.name, row.source, row.total, row.last_step, row.last_value, row.min_value, row.max_value, row.updated_at
    )


def _open_series(connection: sa.Connection, worker: WorkerId, names: set[str]) -> dict[str, _Open]:
    """The series of these names, as they are stored or new."""
    opened = {name: _Open() for name in names}
    series = metric_series.c
    query = sa.select(metric_series).where(
        series.job == worker.job, series.rank == worker.rank, series.name.in_(sorted(names))
    )
    for row in connection.execute(query) if names else ():
        track = Track(row.total, row.stride, None, row.min_value, row.max_value, row.spark, row.spark_stride)
        opened[row.name] = _Open(row.id, row.source, row.stride, _moment(row.updated_at), track)
    return opened


def _add(opened: dict[str, _Open], source: Source, point: Point) -> bool:
    series = opened[point.name]
    if series.source and _TRUST[series.source] > _TRUST[source]:
        return False
    if series.source and series.source != source:
        # The same values, found elsewhere before the first of these came: they would be there twice.
        series.track, series.stored_stride = Track(), 0
    elif source == "files" and _moment(point.at) <= series.newest:
        return False
    if source == "files":
        series.newest = _moment(point.at)
    series.source = source
    series.track.add(point)
    return True


def _moment(at: float) -> int:
    """As exact as the store is."""
    return round(at * 1_000_000)


def _drop_thinned(connection: sa.Connection, changed: Iterable[_Open]) -> None:
    for series in changed:
        if series.id is not None and series.stored_stride != series.track.stride:
            gone = metric_points.c.series == series.id
            if series.stored_stride:
                gone &= metric_points.c.ordinal % series.track.stride != 0
            connection.execute(sa.delete(metric_points).where(gone))


def _save_series(connection: sa.Connection, worker: WorkerId, changed: Mapping[str, _Open]) -> None:
    insert = sa.insert(metric_series).returning(metric_series.c.id)
    known = [{"series": series.id, **_values(series)} for series in changed.values() if series.id is not None]
    for name, series in changed.items():
        if series.id is None:
            key = {"job": worker.job, "name": name, "rank": worker.rank}
            series.id = connection.execute(insert, {**key, **_values(series)}).scalar_one()
    if known:
        connection.execute(sa.update(metric_series).where(metric_series.c.id == sa.bindparam("series")), known)


def _values(series: _Open) -> Values:
    track = series.track
    assert track.last is not None  # only series that points were added to are saved
    return {
        "source": series.source,
        "total": track.count,
        "stride": track.stride,
        "last_step": track.last.step,
        "last_value": track.last.value,
        "min_value": track.low,
        "max_value": track.high,
        "updated_at": track.last.at,
        "spark": track.spark,
        "spark_stride": track.spark_stride,
    }


def _insert_points(connection: sa.Connection, changed: Iterable[_Open]) -> None:
    rows = [
        {"series": series.id, "ordinal": ordinal, "step": point.step, "value": point.value, "at": point.at}
        for series in changed
        for ordinal, point in series.track.fresh
    ]
    if rows:
        connection.execute(sa.insert(metric_points), rows)
