"""Points: seen once, thinned, and exact in what is said of the whole."""

import math

import pytest
import sqlalchemy as sa

from schedulearn.core.domain.errors import NotFound
from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.core.domain.job import HistoryEvent
from schedulearn.core.domain.spec import Metric
from schedulearn.store import GIVEN_UP, MOST_SERIES, Found, Mark, Point, Series, thinning
from schedulearn.store.tables import metric_points, metric_series
from schedulearn.store.thinning import MOST_POINTS

AT = 1_700_000_000.25


def points(seqs, name="loss", value=float):
    return [Point(n, AT + n, n * 10, name, value(n)) for n in seqs]


def test_points_come_back_as_a_curve(make):
    job = make.running()
    assert (
        make.store.add_points(job.id, 1, 0, "report", points(range(3)) + points(range(3), "acc", lambda n: -n)).new == 6
    )
    assert make.store.curve(job.id, "loss", 100) == [(0, 0.0, AT), (10, 1.0, AT + 1), (20, 2.0, AT + 2)]
    assert make.store.series_of(job.id) == [
        Series("acc", "report", 3, 20, -2.0, -2.0, 0.0, AT + 2),
        Series("loss", "report", 3, 20, 2.0, 0.0, 2.0, AT + 2),
    ]


def test_nothing_reported_yet(make):
    job = make.running()
    assert make.store.add_points(job.id, 1, 0, "report", []).new == 0
    assert make.store.curve(job.id, "loss", 100) == []
    assert make.store.series_of(job.id) == []


def test_a_point_is_taken_once(make):
    job = make.running(workers=2)

    def add(seqs, rank=0, source="report", name="loss"):
        return make.store.add_points(job.id, 1, rank, source, points(seqs, name)).new

    assert add([0, 1, 1, 0, 2]) == 3
    assert add([1, 2, 3]) == 1
    assert add([3]) == 0
    assert add([2, 3], rank=1) == 2  # each worker counts for itself
    assert add([2, 3], source="pattern", name="other") == 2  # and so does each source
    assert [step for step, _, _ in make.store.curve(job.id, "loss", 100)] == [0, 10, 20, 30]


def test_the_next_attempt_goes_on_with_the_same_curve(make):
    job = make.running()
    make.store.add_points(job.id, 1, 0, "report", points([5, 6]))
    job.attempt = 2
    make.save(jobs=[job], attempts=[make.attempt(job)])
    assert make.store.add_points(job.id, 2, 0, "report", points([1, 2])).new == 2
    assert [step for step, _, _ in make.store.curve(job.id, "loss")] == [50, 60, 10, 20]


@pytest.mark.parametrize(("since", "first"), [(-5, 0), (0, 0), (1.5, 2), (5, 5), (5.5, 7), (7.5, None)])
def test_the_first_progress_since(make, since, first):
    job, other = make.running(), make.running()
    make.store.add_points(other.id, 1, 0, "report", points(range(20)))
    make.store.add_points(job.id, 1, 0, "report", points([0, 1, 2, 5]))
    make.store.add_points(job.id, 1, 0, "report", points([7], "acc"))
    assert make.store.first_progress(job.id, AT + since) == (None if first is None else AT + first)


def test_the_first_progress_of_a_curve_that_was_thinned_is_never_too_early(make):
    job = make.running()
    make.store.add_points(job.id, 1, 0, "report", points(range(3 * MOST_POINTS)))
    last = 3 * MOST_POINTS - 1
    assert make.store.first_progress(job.id, AT + last) == AT + last
    assert make.store.first_progress(job.id, AT + 10.5) in [AT + n for n in range(11, 20)]


@pytest.mark.parametrize("rank", [1, -1])
def test_no_such_worker(make, rank):
    job = make.running()
    with pytest.raises(NotFound, match=f"{job.id}.1.{rank}"):
        make.store.add_points(job.id, 1, rank, "report", points([1]))
    with pytest.raises(NotFound):
        make.store.add_points(JobId(4711), 1, 0, "report", points([1]))


def test_what_is_reported_is_not_also_read_from_the_output(make):
    job = make.running()
    assert make.store.add_points(job.id, 1, 0, "pattern", points([1, 2], value=lambda n: -5.0)).new == 2
    assert make.store.series_of(job.id)[0].source == "pattern"
    assert make.store.add_points(job.id, 1, 0, "report", points([3, 4])).new == 2
    assert make.store.add_points(job.id, 1, 0, "pattern", points([5]) + points([5], "acc")).new == 1

    acc, loss = make.store.series_of(job.id)
    assert (loss.source, loss.count, loss.min, loss.last) == ("report", 2, 3.0, 4.0)
    assert acc.source == "pattern"
    assert [value for _, value, _ in make.store.curve(job.id, "loss")] == [3.0, 4.0]


def test_reports_of_several_workers_in_one_series(make):
    """The leader of an elastic job is lost, and another one goes on."""
    job = make.running(workers=3)
    make.store.add_points(job.id, 1, 0, "report", points([1, 2]))
    for _ in range(2):
        make.store.add_points(job.id, 1, 2, "report", points([1, 2], value=lambda n: 9.0), 0)
    assert [value for _, value, _ in make.store.curve(job.id, "loss")] == [1.0, 2.0, 9.0, 9.0]
    assert len(make.store.series_of(job.id)) == 1


def test_values_of_files_are_taken_once_by_their_time(make):
    job = make.running()

    def add(*seqs, source="files"):
        return make.store.add_points(job.id, 1, 0, source, points(seqs)).new

    assert add(1, 2) == 2
    assert add(1, 2, 3) == 1
    assert add(2) == 0
    assert make.store.series_of(job.id)[0].source == "files"
    assert [step for step, _, _ in make.store.curve(job.id, "loss")] == [10, 20, 30]
    assert add(9, source="pattern") == 0
    assert add(1, source="report") == 1
    assert add(9) == 0
    assert [step for step, _, _ in make.store.curve(job.id, "loss")] == [10]
    with pytest.raises(NotFound):
        make.store.add_points(JobId(99), 1, 0, "files", points([1]))


def test_the_latest_steps(make):
    one, two, silent = make.running(workers=2), make.running(), make.running()
    make.store.add_points(one.id, 1, 1, "report", points([1]) + points([9], "acc"))
    make.store.add_points(one.id, 1, 0, "report", points([2]))
    make.store.add_points(two.id, 1, 0, "report", points([5], "acc"))
    asked = {one.id: "loss", two.id: "acc", silent.id: "loss"}
    assert make.store.latest_steps(asked) == {one.id: (20, AT + 2), two.id: (50, AT + 5)}
    assert make.store.latest_steps({}) == {}


def test_each_workers_values_are_a_series_of_their_own_and_the_lowest_rank_is_shown(make):
    job = make.running(workers=3)
    for rank in (2, 1):
        make.store.add_points(job.id, 1, rank, "report", points(range(2), value=lambda n, r=rank: r * 100.0))
    assert [value for _, value, _ in make.store.curve(job.id, "loss")] == [100.0, 100.0]
    assert [series.last for series in make.store.series_of(job.id)] == [100.0]


def test_nan_and_infinity_are_values_too(make):
    job = make.running()
    values = [1.0, math.inf, math.nan, -math.inf, math.nan]
    make.store.add_points(job.id, 1, 0, "report", points(range(5), value=lambda n: values[n]))

    assert repr([value for _, value, _ in make.store.curve(job.id, "loss")]) == repr(values)
    (series,) = make.store.series_of(job.id)
    assert (series.min, series.max) == (-math.inf, math.inf)
    assert math.isnan(series.last)
    assert repr(list(make.store.job(job.id).progress.spark)) == repr(values)


def test_only_nan(make):
    job = make.running()
    make.store.add_points(job.id, 1, 0, "report", points([1], value=lambda _: math.nan))
    (series,) = make.store.series_of(job.id)
    assert (series.min, series.max) == (None, None)


def test_silly_points_break_nothing(make):
    job = make.running()
    silly = [Point(10**30, math.inf, -(10**30), "n\0" * 10_000, 1e308), Point(1, math.nan, 1, "", 0.0)]
    assert make.store.add_points(job.id, 1, 0, "report", silly).new == 2
    assert len(make.store.series_of(job.id)) == 2


def test_many_points_in_batches_stay_under_the_cap(make, contents):
    job, many, batch = make.running(), 40_000, 2_500
    for start in range(0, many, batch):
        make.store.add_points(
            job.id, 1, 0, "report", points(range(start, start + batch), value=lambda n: abs(n - 777.5))
        )
        stored = len(contents()["metric_points"])
        assert MOST_POINTS / 2 <= stored <= MOST_POINTS

    (series,) = make.store.series_of(job.id)
    assert (series.count, series.step, series.last) == (many, (many - 1) * 10, many - 1 - 777.5)
    assert (series.min, series.max) == (0.5, many - 1 - 777.5)
    curve = make.store.curve(job.id, "loss", 10_000)
    steps = [step for step, _, _ in curve]
    assert steps == sorted(set(steps))
    assert (steps[0], steps[-1]) == (0, (many - 1) * 10)
    spark = make.store.job(job.id).progress.spark
    assert 12 <= len(spark) <= 24
    assert spark[-1] == series.last


@pytest.mark.parametrize("most", [1, 2, 3, 7, 99, 100, 101, 5000])
def test_a_curve_is_read_with_at_most_so_many_points(make, most):
    job = make.running()
    make.store.add_points(job.id, 1, 0, "report", points(range(100)))
    steps = [step for step, _, _ in make.store.curve(job.id, "loss", most)]
    assert len(steps) <= most
    assert steps == sorted(set(steps))
    assert steps[-1] == 990
    assert most == 1 or steps[0] == 0
    assert most < 100 or len(steps) == 100


def test_a_batch_is_a_handful_of_statements(make, statements):
    job = make.running()
    make.store.add_points(job.id, 1, 0, "report", points(range(100)) + points(range(100), "acc"))
    statements.clear()
    make.store.add_points(job.id, 1, 0, "report", points(range(100, 200)) + points(range(100, 200), "acc"))
    assert len(statements) <= 5


def test_news_are_of_the_named_metric_and_others_are_not_even_read(make, statements):
    one, two = make.running(), make.running()
    for job in (one, two):
        make.store.add_points(job.id, 1, 0, "report", points([1, 2], "acc") + points([3, 4, 5]))
    statements.clear()
    found = make.store.news({one.id: Mark("loss", 1), two.id: Mark("acc")})
    steps = {job: [point.step for point in news.points] for job, news in found.items()}
    assert steps == {one.id: [40, 50], two.id: [10, 20]}
    assert "metric_series.name IN" in statements[0]
    assert make.store.news({one.id: Mark("other")}) == {}


def test_how_far_the_output_was_searched(make):
    job = make.running()
    worker = WorkerId(job.id, 1, 0)
    assert make.store.output_place(worker).offset == 0
    make.store.add_found([Found(worker, 2**40)])
    assert make.store.output_place(worker).offset == 2**40
    assert make.store.output_place(WorkerId(job.id, 1, 1)).offset == 0


def test_what_was_found_in_the_output_of_many_workers(make, statements):
    one, two = make.running(workers=2), make.running()
    gone, at = WorkerId(JobId(99), 1, 0), WorkerId
    found = [
        Found(at(one.id, 1, 0), 7, points([1, 2])),
        Found(gone, 3, points([1])),
        Found(at(two.id, 1, 0), 5, points([1], "acc")),
    ]
    make.store.add_found(found)
    statements.clear()
    make.store.add_found([*found, Found(at(one.id, 1, 1), 9, points([3]))])  # another one leads
    assert len(statements) == 5, "for any number of workers"
    assert [point.step for point in make.store.curve(one.id, "loss")] == [10, 20, 30]
    assert [point.step for point in make.store.curve(two.id, "acc")] == [10]
    assert [make.store.output_place(at(*worker)).offset for worker in [(one.id, 1, 0), (one.id, 1, 1), gone]] == [
        7,
        9,
        0,
    ]


def test_the_latest_values(make):
    one, two, silent = make.running(workers=2), make.running(), make.running()
    make.store.add_points(one.id, 1, 1, "report", points(range(9), value=lambda n: 100.0 + n))
    make.store.add_points(one.id, 1, 0, "report", points([1, 2]) + points([3, 4], "acc"))
    make.store.add_points(two.id, 1, 0, "report", points([1, 2, 3, 4], "acc") + points(range(4)))
    asked = {one.id: "loss", two.id: "acc", silent.id: "loss"}
    assert make.store.latest_values(asked, 3) == {one.id: [1.0, 2.0], two.id: [2.0, 3.0, 4.0]}
    assert make.store.latest_values({}, 3) == {}


@pytest.mark.parametrize("total", [1, 2, 2000, 2001, 2002, 2003, 4100])
def test_the_latest_values_of_a_thinned_curve_end_with_the_newest(make, total):
    job = make.running()
    make.store.add_points(job.id, 1, 0, "report", points(range(total)))
    found = make.store.latest_values({job.id: "loss"}, 3)[job.id]
    assert found[-1] == total - 1
    assert len(found) == min(total, 3)
    assert found == sorted(set(found))
    assert found[0] >= total - 1 - 8, "thinned, but not from long ago"


def test_the_latest_values_of_many_jobs_are_one_query(make, statements):
    jobs = [make.running() for _ in range(5)]
    for job in jobs:
        make.store.add_points(job.id, 1, 0, "report", points(range(5)))
    statements.clear()
    assert len(make.store.latest_values({job.id: "loss" for job in jobs}, 3)) == 5
    assert len(statements) == 1


# --- bounds, and pages


def many(count: int, first: int = 0, seq: int = 1) -> list[Point]:
    return [Point(seq, AT, 1, f"m{n:06d}", float(n)) for n in range(first, first + count)]


def test_a_job_has_only_so_many_series(make):
    job = make.running(workers=2)
    assert make.store.add_points(job.id, 1, 0, "report", many(MOST_SERIES - 1)) == (MOST_SERIES - 1, 0)
    assert make.store.add_points(job.id, 1, 0, "report", many(3, MOST_SERIES - 1, seq=2)) == (1, 2), "the first fit"
    assert make.store.add_points(job.id, 1, 0, "report", many(MOST_SERIES, seq=3)) == (MOST_SERIES, 0), (
        "known ones go on"
    )
    assert make.store.add_points(job.id, 1, 1, "report", many(3)) == (3, 0), "the others have room of their own"
    _, total = make.store.curves(job.id, limit=0)
    assert total == MOST_SERIES


def test_the_metric_that_a_job_names_always_has_its_place(make):
    job = make.running(metric=Metric("zeal"))
    make.store.add_points(job.id, 1, 0, "report", many(MOST_SERIES))
    more = [Point(2, AT, 1, "other", 1.0), Point(2, AT, 1, "zeal", 2.0)]
    assert make.store.add_points(job.id, 1, 0, "report", more) == (1, 1)
    assert [point.value for point in make.store.curve(job.id, "zeal")] == [2.0]


def test_one_report_with_more_names_than_a_statement_takes(make):
    job = make.running()
    assert make.store.add_points(job.id, 1, 0, "report", many(40_000)) == (MOST_SERIES, 40_000 - MOST_SERIES)


def test_a_job_with_far_too_many_series_from_before(make, statements):
    """It is answered in pages, by a few statements each, and takes nothing new."""
    job, count = make.running(), 20_000
    row = {"job": job.id, "rank": 0, "source": "report", "total": 1, "stride": 1, "last_step": 1, "last_value": 0.5}
    row |= {"updated_at": AT, "spark": [0.5], "spark_stride": 1}
    with make.store._db.write() as connection:
        connection.execute(sa.insert(metric_series), [{**row, "name": f"m{n:06d}"} for n in range(count)])
        ids = connection.execute(sa.select(metric_series.c.id)).scalars()
        points = [{"series": id, "ordinal": 0, "step": 1, "value": 0.5, "at": AT} for id in ids]
        connection.execute(sa.insert(metric_points), points)
    statements.clear()
    curves, total = make.store.curves(job.id, limit=3, offset=19_998)
    assert [curve.series.name for curve in curves] == ["m019998", "m019999"]
    assert [len(curve.points) for curve in curves] == [1, 1]
    assert total == count
    assert len(statements) == 3
    assert make.store.add_points(job.id, 1, 0, "report", many(2, count)) == (0, 2)


def test_pages_are_in_the_order_of_names_and_each_is_there_once(make):
    job = make.running(workers=2)
    make.store.add_points(job.id, 1, 1, "report", many(7))
    make.store.add_points(job.id, 1, 0, "report", many(5, 2))
    names = [s.name for at in range(0, 8, 3) for s in make.store.series_of(job.id, limit=3, offset=at)]
    assert names == [point.name for point in many(7)]
    assert make.store.series_of(job.id, limit=0) == make.store.series_of(job.id, limit=5, offset=7) == []
    assert make.store.curves(job.id, "m000003", limit=5)[1] == 1


def test_many_curves_together_have_fewer_points_each(make, monkeypatch):
    monkeypatch.setattr(thinning, "MOST_READ", 40)
    job = make.running()
    make.store.add_points(job.id, 1, 0, "report", [p for n in range(4) for p in points(range(100), f"m{n}")])
    curves, _ = make.store.curves(job.id, max_points=100)
    assert [len(curve.points) <= 10 for curve in curves] == [True] * 4
    assert [(c.points[0].step, c.points[-1].step) for c in curves] == [(0, 990)] * 4
    assert len(make.store.curve(job.id, "m1", 30)) > 10


def test_names_that_would_act_on_a_terminal(make):
    job = make.running()
    make.store.add_points(job.id, 1, 0, "files", [Point(0, AT, 1, "a\x1b[2J\u202eb", 1.0)])
    assert [series.name for series in make.store.series_of(job.id)] == ["a\ufffd[2J\ufffdb"]


def test_what_is_noted_once(make):
    job, other = make.job(), make.job()
    for number in (job.id, job.id, other.id):
        make.store.note_once(HistoryEvent(AT, "metrics_full", "too many", number))
    assert [e.event.kind for e in make.store.events_after(0, job.id)] == ["submitted", "metrics_full"]
    assert [e.event.kind for e in make.store.events_after(0, other.id)] == ["submitted", "metrics_full"]


def test_an_output_that_was_given_up(make):
    job = make.running()
    worker = WorkerId(job.id, 1, 0)
    make.store.give_up_output(worker)
    assert make.store.output_place(worker).offset == GIVEN_UP
