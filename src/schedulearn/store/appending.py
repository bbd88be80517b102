"""Points that are put behind their series, which are thinned on the way."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

import sqlalchemy as sa

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.spec import spec_from_dict
from schedulearn.store.base import in_chunks
from schedulearn.store.codec import Values
from schedulearn.store.tables import jobs, metric_points, metric_series
from schedulearn.store.thinning import Track
from schedulearn.store.types import Point, Source, Taken

MOST_SERIES = 1000  # of the worker that speaks for a job, and as many of all its others together
LONGEST_NAME = 200  # characters; the rest is cut off, because the name is part of an index
_TRUST: dict[Source, int] = {"pattern": 0, "files": 1, "report": 2}
# What is asked every second is put together once: each time, that would take SQLAlchemy about as long as asking it.
_SERIES = sa.select(metric_series).where(
    *(metric_series.c[name].in_(sa.bindparam(f"{name}s", expanding=True)) for name in ("job", "rank", "name"))
)
_COUNT_FIRST, _COUNT_OTHERS = (
    sa.select(sa.func.count()).select_from(
        sa.select(metric_series.c.id)
        .where(metric_series.c.job == sa.bindparam("of"), which)
        .limit(MOST_SERIES)  # however many an older version took in
        .subquery()
    )
    for which in (metric_series.c.rank == 0, metric_series.c.rank != 0)
)
_NEW_SERIES = sa.insert(metric_series).returning(metric_series.c.id)
_CHANGED_SERIES = sa.update(metric_series).where(metric_series.c.id == sa.bindparam("series"))


class SeriesKey(NamedTuple):
    """Which series of a metric's values."""

    job: JobId
    rank: int
    name: str


@dataclass(slots=True)
class _Open:
    """A series that points are being added to."""

    id: int | None = None  # None: not stored yet
    source: Source | None = None
    stored_stride: int = 1  # of the points that are stored already; 0: those must go
    newest: int = 0  # when its last point was measured, in microseconds
    track: Track = field(default_factory=Track)


def append(connection: sa.Connection, source: Source, points: Sequence[tuple[SeriesKey, Point]]) -> Taken:
    """Put new points behind their series. Points of series that a job has no more room for are dropped."""
    opened = _open_series(connection, dict.fromkeys(key for key, _ in points))
    refused = _beyond_bounds(connection, [key for key, series in opened.items() if series.id is None])
    kept = [(key, point) for key, point in points if key not in refused]
    taken = sum(_add(opened[key], source, point) for key, point in kept)
    changed = {key: series for key, series in opened.items() if series.track.last}
    _drop_thinned(connection, changed.values())
    _save_series(connection, changed)
    _insert_points(connection, changed.values())
    return Taken(taken, len(points) - len(kept))


def _open_series(connection: sa.Connection, keys: Iterable[SeriesKey]) -> dict[SeriesKey, _Open]:
    """As they are stored or new, in the order of the keys."""
    opened = {key: _Open() for key in keys}
    ranks, names = [*{key.rank for key in opened}], [*{key.name for key in opened}]
    for numbers, some in product(in_chunks({key.job for key in opened}), in_chunks(names)):
        for row in connection.execute(_SERIES, {"jobs": numbers, "ranks": ranks, "names": some}):
            key = SeriesKey(JobId(row.job), row.rank, row.name)
            if key in opened:
                track = Track(row.total, row.stride, None, row.min_value, row.max_value, row.spark, row.spark_stride)
                opened[key] = _Open(row.id, row.source, row.stride, _moment(row.updated_at), track)
    return opened


def _beyond_bounds(connection: sa.Connection, new: Iterable[SeriesKey]) -> set[SeriesKey]:
    """Those of the new series, in their order, that their jobs have no room for.

    The worker that speaks for a job has its own room, so that the others cannot take it; and the metric that the job's
    spec names always has its place.
    """
    wanted: dict[tuple[JobId, bool], list[SeriesKey]] = {}
    for key in new:
        wanted.setdefault((key.job, key.rank == 0), []).append(key)
    refused: set[SeriesKey] = set()
    for (job, speaks), keys in wanted.items():
        there = connection.execute(_COUNT_FIRST if speaks else _COUNT_OTHERS, {"of": job}).scalar_one()
        if len(keys) > (room := MOST_SERIES - there):
            named = _named_metric(connection, job) if speaks else None
            refused.update(key for key in keys[max(0, room) :] if key.name != named)
    return refused


def _named_metric(connection: sa.Connection, job: JobId) -> str | None:
    spec = connection.execute(sa.select(jobs.c.spec).where(jobs.c.id == job)).scalar()
    return spec_from_dict(spec).metric.name[:LONGEST_NAME] if spec else None


def _add(series: _Open, source: Source, point: Point) -> bool:
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


def _save_series(connection: sa.Connection, changed: Mapping[SeriesKey, _Open]) -> None:
    known = [{"series": series.id, **_values(series)} for series in changed.values() if series.id is not None]
    for key, series in changed.items():
        if series.id is None:
            series.id = connection.execute(_NEW_SERIES, {**key._asdict(), **_values(series)}).scalar_one()
    if known:
        connection.execute(_CHANGED_SERIES, known)


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
