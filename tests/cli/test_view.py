"""Numbers, times, curves and tables as text: what must hold for all of them."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from schedulearn.cli.common.out import wrapped
from schedulearn.cli.view import story
from schedulearn.cli.view.jobs import status_line
from schedulearn.cli.view.table import Cell, Column, fit, rows_of, shown, table_lines
from schedulearn.cli.view.text import broken, columns_of, shortened
from schedulearn.client import Client
from schedulearn.wire import clean as terminal
from schedulearn.wire import words
from schedulearn.wire.facts import needs

finite = st.floats(allow_nan=False, allow_infinity=False, width=32)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (2.5, "2.5 s"), (45, "45 s"), (95, "1 min 35 s"), (720, "12 min"), (12000, "3 h 20 min"),
     (187200, "2 d 4 h"), (86400, "1 d"), (-60, "-1 min"), (None, "")],
)  # fmt: skip
def test_duration(seconds, text):
    assert words.duration(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2e9, "2 GB"), (None, "")])
def test_size(count, text):
    assert words.size(count) == text


@given(st.lists(st.floats(width=32), max_size=200), st.integers(2, 40))
def test_a_sparkline_is_never_wider_than_asked(values, width):
    line = words.sparkline(values, width)
    assert len(line) <= width
    assert set(line) <= set("▁▂▃▄▅▆▇█")


def test_a_falling_curve_falls():
    assert words.sparkline([8, 7, 6, 5, 4, 3, 2, 1], 8) == "█▇▆▅▄▃▂▁"
    assert words.sparkline([float("nan"), 1.0, float("inf")], 8) == "▁"


def test_a_curve_over_decades_is_drawn_by_its_logarithm():
    assert words.sparkline([1000.0, 100.0, 10.0, 1.0, 0.1], 8) == "█▇▅▃▁"
    assert words.sparkline([1000.0, 100.0, 10.0, 1.0, 0.0], 8) == "█▁▁▁▁"  # zero has none


@given(finite, st.integers(1, 30))
def test_a_bar_has_its_width(share, width):
    assert len(words.bar(share, width)) == width


@given(st.text())
def test_cleaned_text_is_one_line(text):
    assert len(terminal.clean(text).splitlines()) <= 1
    assert "\x1b" not in terminal.clean(text)


def test_times_of_today_are_short():
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert len(words.clock("2026-03-01T11:59:00Z", now)) == 8
    assert words.clock("2025-03-01T11:59:00Z", now).startswith("2025-0")
    assert words.ago("2026-03-01T11:59:00Z", now) == "1 min ago"
    assert words.ago("2026-03-01T12:01:00Z", now) == "in 1 min"


@given(st.lists(st.tuples(st.integers(1, 60), st.booleans()), min_size=1, max_size=8), st.integers(1, 200))
def test_columns_fit_unless_they_may_not_be_shortened(columns, room):
    naturals, flex = [n for n, _ in columns], [f for _, f in columns]
    widths = fit(naturals, flex, room)
    least = sum(min(n, 8) if f else n for n, f in columns)
    assert sum(widths) <= max(room, least)
    assert all(w == n or f for w, n, f in zip(widths, naturals, flex, strict=True))


columns = st.lists(
    st.builds(Column, st.text("ABC", min_size=1, max_size=6), flex=st.booleans(), need=st.sampled_from([0, 70, 90])),
    min_size=1,
    max_size=8,
)


@given(columns, st.data(), st.integers(20, 200))
def test_what_is_left_out_is_what_needs_most_and_only_if_it_must(columns, data, width):
    naturals = [data.draw(st.integers(0, 60)) for _ in columns]
    kept = shown(columns, naturals, width)
    left = [i for i in range(len(columns)) if i not in kept]
    assert {i for i, column in enumerate(columns) if not column.need} <= set(kept)
    assert all(naturals[i] for i in kept if columns[i].need)  # an empty column takes no room
    full = [columns[i].need for i in left if naturals[i]]
    assert not full or min(full) >= max([columns[i].need for i in kept], default=0)
    if width == 200 and len(columns) <= 3:
        assert not full


def test_long_text_is_broken_between_words_on_a_terminal_alone(monkeypatch):
    text = "It needs 2 cores on one node; the most free is 0 cores."
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stdout.isatty", lambda: False, raising=False)
    assert wrapped(text, 4) == text
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    lines = wrapped(text, 4).split("\n")
    assert len(lines) == 2
    assert all(len(line) <= 40 for line in lines)
    assert [line.startswith("    ") for line in lines] == [False, True]
    assert " ".join(line.strip() for line in lines) == text


@given(st.lists(st.tuples(st.text(min_size=1, max_size=50), st.text(max_size=50)), max_size=10))
def test_a_plain_table_loses_nothing(rows):
    columns = (Column("A"), Column("B", right=True))
    lines = table_lines(columns, [(Cell(a, "red"), b) for a, b in rows], None)
    assert len(lines) == len(rows) + 1
    for (a, b), line in zip(rows, lines[1:], strict=True):
        assert terminal.clean(a).strip() in line
        assert terminal.clean(b).strip() in line


def test_where_a_job_runs():
    assert words.nodes_of({"placement": [{"node": node} for node in ("a", "b", "a")]}) == "a ×2, b"


@pytest.mark.parametrize(
    ("state", "reason", "end", "expected"),
    [
        ("succeeded", "", "finished", ""),
        ("failed", "", "exit code 7", "exit code 7"),
        ("failed", "time limit reached", "exit code 7", "time limit reached: exit code 7"),
        ("failed", "exit code 7", "exit code 7", "exit code 7"),
        ("failed", "job 3 failed", None, "job 3 failed"),
        ("queued", "waits for job 3", None, "waits for job 3"),
    ],
)
def test_why(state, reason, end, expected):
    assert words.why({"state": state, "reason": reason, "exit": end and {"text": end}}) == expected


def test_status_lines(jobs):
    with Client() as client:
        running, waiting = status_line(client.job(17)), client.job(18)
    assert running.startswith("job 17 mnist-17 · running 5 min · ━─")
    assert "loss 0.3125 █" in running
    assert running.endswith("about 36 min left")
    waiting = status_line(waiting, {"position": 3, "text": "It needs 2 GPUs."})
    assert waiting == "job 18 mnist-18 · queued, place 3 · It needs 2 GPUs."


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"memory": 200_000_000}, "1 worker with memory 200 MB"),
        ({"memory": 4e9, "shm": 1_500_000_000}, "1 worker with memory 4 GB, shm 1.5 GB"),
        ({"memory": "4GB", "cpus": {"min": 0.5, "max": 4}}, "1 worker with memory 4GB, cpus 0.5..4"),
        ({"gpus": 2, "cpus": 1.0}, "1 worker with gpus 2, cpus 1"),
    ],
)
def test_what_a_job_needs(resources, words):
    assert needs({"workers": 1, "resources": resources}) == words


@pytest.mark.parametrize(
    ("metric", "shown"),
    [
        ({"name": "accuracy", "goal": "max"}, "best 0.9, lowest 0.1"),
        ({"name": "accuracy", "goal": "min"}, "best 0.1, highest 0.9"),
        ({"name": "loss", "goal": "min"}, "lowest 0.1, highest 0.9"),
    ],
)
def test_what_is_best_depends_on_the_goal(metric, shown):
    series = {"name": "accuracy", "points": [[1, 0.1], [2, 0.9]], "last": 0.5, "min": 0.1, "max": 0.9}
    ((name, text),) = story.curves({"spec": {"metric": metric}}, [series])
    assert name == "accuracy"
    assert text.endswith(f"now 0.5  ({shown})")


@pytest.mark.parametrize(
    ("worker", "text"),
    [
        ({}, "running"),
        ({"left_at": "2030-01-01T00:00:01Z"}, "leaving"),
        ({"left_at": "2030-01-01T00:00:01Z", "ended_at": "2030-01-01T00:00:02Z"}, "left, the others went on: finished"),
        ({"left_at": "2030-01-01T00:00:02Z", "ended_at": "2030-01-01T00:00:02Z"}, "lost, the others went on: finished"),
    ],
)
def test_workers_that_come_and_go(worker, text):
    known = {"worker": "17.1.2", "node": "a", "started_at": "2030-01-01T00:00:00Z", "exit": {"text": "finished"}}
    workers = story.workers_of([{"workers": [known | worker]}])
    ((*_, ended),) = rows_of(story.attempt_columns(datetime(2030, 1, 1, tzinfo=UTC)), workers)
    assert ended.text == text


WIDE = ["训练模型-数字识别", "🚀 rocket", "plain", "<b>bold</b>"]


@pytest.mark.parametrize("width", [None, 24, 40])
def test_columns_stand_below_each_other_whatever_the_letters(width):
    columns = (Column("NAME", flex=True), Column("STATE"))
    lines = table_lines(columns, [(name, "queued") for name in WIDE], width)
    assert {cell_len(line) for line in lines[1:]} == {cell_len(lines[1])}
    assert all(line.endswith("  queued") for line in lines[1:])
    assert width is None or cell_len(lines[1]) <= width


def test_what_is_cut_says_so():
    assert shortened("训练模型", 6) == "训练…"
    assert shortened("whole", 5) == "whole"


def test_a_detail_is_broken_into_lines_and_not_cut():
    columns = (Column("TIME"), Column("CAUSE", flex=True, wrap=True))
    lines = table_lines(columns, [("10:00", "it was stopped by ann to make room")], 24)
    assert lines[1:] == ["10:00  it was stopped by", "       ann to make room"]


@given(st.text("ab 训🚀", max_size=80), st.integers(8, 40))
def test_broken_lines_fit_unless_a_word_does_not(text, room):
    lines = list(broken(text, room))
    assert "".join(" ".join(lines).split()) == "".join(text.split())
    assert all(columns_of(line) <= room or len(line.split()) <= 1 for line in lines)


def test_of_a_long_list_of_numbers_only_the_beginning_is_shown() -> None:
    given = {"alpha": 0.1, "growing": "full", "on": True, "gpu_times": [float(n) for n in range(1, 1001)]}
    shown = "alpha=0.1, growing=full, on=true, gpu_times=[1.0, 2.0, 3.0, 4.0, 5.0, … 1,000 in all]"
    assert words.parameters(given) == shown
