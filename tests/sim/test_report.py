"""Tables, CSV files, plots and the page: what they hold, and that nothing is left out without a word."""

import csv
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.lab.report import plots
from schedulearn.lab.sim.export import as_json, file_names, write_csv
from schedulearn.lab.sim.figures import estimates_in_words, table, unit_for
from schedulearn.lab.sim.metrics import Result
from schedulearn.lab.sim.report import page
from schedulearn.lab.sim.run import PolicyFailed, Request, Study, prepare

VOID = {"meta"}


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Four rows, one of them malformed; one job too large for the two GPUs; one deadline that cannot be kept."""
    path = tmp_path / "small.csv"
    rows = ["submission_time,num_gpu,duration,deadline", "0,2,100,5000", "x,1,1,1", "10,1,50,20", "20,9,10,5000"]
    path.write_text("\n".join(rows) + "\n")
    return prepare(Request(cluster="2x1", policies=["fifo", "srtf"], trace=str(path), oracle=True, timeline=True))


def results(study: Study) -> list[Result]:
    return [study.run(choice) for choice in study.choices]


# --- figures


def summary(**changes: Any) -> dict[str, Any]:
    keys = ("avg_jct", "p50_jct", "p95_jct", "p99_jct", "avg_wait", "makespan", "utilization", "useful", "preemptions",
            "migrations", "migration_seconds", "resizes", "missed_deadlines", "deadlines", "lost_work",
            "wall_seconds")  # fmt: skip
    return {**dict.fromkeys(keys, 0.0), "completed": 1, **changes}


def test_the_best_of_each_column() -> None:
    rows = [summary(avg_jct=7200.0, utilization=0.5), summary(avg_jct=3600.0, utilization=0.7)]
    columns = {column.title: column for column in table(rows)}
    assert columns["avg JCT (h)"].texts == ["2.00", "1.00"]
    assert columns["avg JCT (h)"].best == [False, True]
    assert columns["used (%)"].best == [False, True]
    assert columns["pre-empted"].best == [False, False]  # all the same: none is better
    assert not any("moved" in title for title in columns)  # nothing moved under any policy


def test_a_policy_under_which_nothing_completed_is_never_the_best() -> None:
    column = table([summary(completed=0), summary(avg_jct=50.0), summary(avg_jct=60.0)])[0]
    assert column.texts == ["–", "50.00", "60.00"]
    assert column.best == [False, True, False]


@pytest.mark.parametrize(
    ("values", "unit"), [([0, 59], "s"), ([60, 90, 9e9], "min"), ([3600], "h"), ([1e5], "d"), ([], "s")]
)
def test_one_unit_for_a_column(values: list[float], unit: str) -> None:
    assert unit_for(values)[1] == unit


def test_estimates_in_words() -> None:
    assert "true durations" in estimates_in_words({"source": "oracle"})
    assert estimates_in_words({"source": "not needed"}) == "none needed"
    words = estimates_in_words(
        {"source": "history", "unknown": 4, "count": 9, "median_error": 0.34, "within_range": 0.8, "bias": 1.2}
    )
    assert "34 %" in words
    assert "4 jobs" in words


# --- files


def test_csv_has_every_policy_and_every_job(study: Study, tmp_path: Path) -> None:
    files = write_csv(tmp_path, [(study, result) for result in results(study)])
    assert [file.name for file in files] == ["results.csv", "jobs-fifo.csv", "jobs-srtf.csv"]
    with open(tmp_path / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["policy"], row["order"], row["completed"], row["malformed_rows"]) for row in rows] == [
        ("fifo", "fifo", "2", "1"),
        ("srtf", "srtf", "2", "1"),
    ]
    with open(tmp_path / "jobs-fifo.csv", newline="") as file:
        jobs = list(csv.DictReader(file))
    assert [(job["status"], job["ended"], job["missed"]) for job in jobs] == [
        ("completed", "100.0", "0"),
        ("completed", "150.0", "1"),
        ("too large", "", ""),
    ]
    assert {(job["policy"], job["trace"], job["seed"]) for job in jobs} == {("fifo", "small", "0")}


def test_the_keys_that_others_rely_on(study: Study) -> None:
    figures = as_json(study, results(study)[0])
    promised = (
        "policy, jobs, completed, avg_jct, p50_jct, p95_jct, p99_jct, avg_wait, makespan, utilization, preemptions, "
        "migrations, resizes, wall_seconds"
    )
    assert set(promised.split(", ")) <= set(figures)
    assert figures["wall_seconds"] > 0
    assert figures["impossible_jobs"] == ["5"]


def test_file_names_are_plain_and_differ() -> None:
    assert file_names(["fifo", "a/b.py:C", "a/b.py/C", ".."]) == ["fifo", "a-b.py-C", "a-b.py-C-2", "policy"]


# --- plots


@given(st.lists(st.floats(0.1, 1e7), min_size=1, max_size=600))
def test_a_cdf_rises_to_one(values: list[float]) -> None:
    points = plots.cdf(values)
    assert points == sorted(points)
    assert points[0][0] == min(values)
    assert points[-1] == (max(values), 1.0)
    assert len(points) <= 240


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 50)), min_size=1, max_size=50))
def test_means_over_time_keep_the_area(samples: list[tuple[float, float]]) -> None:
    samples = sorted(samples)
    points = plots.averaged(samples, 0.0, 120.0, buckets=40)
    area = sum(v * (t1 - t0) for (t0, v), (t1, _) in zip(samples, [*samples[1:], (120.0, 0.0)], strict=True))
    assert math.isclose(sum(value for _, value in points) * 3.0, area, rel_tol=1e-6, abs_tol=1e-6)


@pytest.mark.parametrize("high", [0.5, 9, 61, 3600, 90_000, 5.5e6, 3e9])
def test_axes_have_a_handful_of_ticks(high: float) -> None:
    for axis in (plots.time_axis(high), plots.value_axis(high), plots.log_time_axis(1.0, high)):
        assert 2 <= len(axis.ticks) <= 11
        assert all(0 <= axis.place(value) <= 1.0001 for value, _ in axis.ticks)


def test_jobs_on_one_node_do_not_cover_each_other() -> None:
    spans = [plots.Span(0, 0, 10, 2, 1, "a"), plots.Span(0, 5, 9, 1, 2, "b"), plots.Span(0, 10, 12, 3, 3, "c")]
    laid = {span.job: lanes for span, lanes in plots.Timeline([("n", 3)], 12.0)._laid_out(spans)}
    assert laid == {1: [(0, 2)], 2: [(2, 1)], 3: [(0, 3)]}


# --- the page


class Reader(HTMLParser):
    """Checks that tags are closed in order, and gathers addresses and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """`<path/>` needs no end."""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    assert reader.open == []
    return reader


def test_the_page_needs_nothing_else_and_says_everything(study: Study) -> None:
    failed = PolicyFailed("mine.py:<b>", "KeyError: 3", "")
    html = page(study, results(study), [failed], ["schedulearn", "compare", "--trace", "a b.csv"])
    reader = read(html)
    assert reader.addresses == []
    assert not re.search(r"https?://|@import|url\(", html)
    for words in (
        "small on 2x1", "1 malformed rows", "line 3", "5 asks for 9 GPUs", "mine.py:<b> failed", "Completion times",
        "Queue length", "Utilisation", "Missed deadlines (of 2)", "Jobs on nodes",
        "schedulearn compare --trace 'a b.csv'",
        "true durations (--oracle)", "None under any policy: ", "node0001",
    ):  # fmt: skip
        assert words in reader.text, words
    assert "<b>failed" not in html


def test_a_page_of_one_policy_under_which_nothing_could_run(tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    path.write_text("submission_time,num_gpu,duration,deadline\n0,9,10,50\n")
    alone = prepare(Request(cluster="1x1", policies=["fifo"], trace=str(path), timeline=True))
    reader = read(page(alone, results(alone), [], ["schedulearn"]))
    assert "asks for 9 GPUs" in reader.text


def test_a_timeline_says_what_it_leaves_out() -> None:
    large = prepare(Request(cluster="20x2", policies=["fifo"], trace="synthetic:philly?jobs=800&load=3", timeline=True))
    html = page(large, results(large), [], ["schedulearn"])
    assert "Left out, to stay readable: 4 more nodes and the " in read(html).text
    assert html.count('class="job ') < 4000
