"""The timeline without a browser: addresses, bars, lanes and the chart."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.dashboard.views.timeline import SPANS, Bar, Window, bars, chart, height, iso, lanes, rows, tools
from schedulearn.wire import types

from .test_views import Reader

AT = 1_800_000_000.0


def span(worker: str = "17.1.0", start: float = -60, end: float | None = None, **more: Any) -> types.Span:
    """At seconds from AT on."""
    usual = {"job": int(worker.split(".")[0]), "name": "mnist", "user": "ann", "node": "gpu1", "devices": []}
    times = {"started_at": iso(AT + start), "ended_at": None if end is None else iso(AT + end)}
    return cast(types.Span, {"worker": worker, **usual, **times, "stop": None, "exit": None, **more})


# --- which time

WINDOWS = st.builds(
    Window, st.sampled_from([0, 10, 300, 86400]), st.none() | st.integers(10**8, 3 * 10**9).map(float)
)  # fmt: skip


@given(WINDOWS)
def test_an_address_says_which_time(window: Window) -> None:
    assert Window.parse(window.address.partition("?")[2]) == window


@pytest.mark.parametrize("query", ["", "?", "span=x", "span=-1", "until=now", "until=0001-01-01", "span=²", "%%%&=&x"])
def test_an_address_that_makes_no_sense_is_now(query: str) -> None:
    assert Window.parse(query) == Window()


@pytest.mark.parametrize(
    ("age", "span"), [(0, 60), (59, 60), (60, 600), (700, 3600), (4000, 6 * 3600), (10**6, 6 * 3600)]
)  # fmt: skip
def test_without_a_length_everything_is_shown_up_to_a_few_hours(age: float, span: int) -> None:
    assert Window().fitted(AT, AT - age).span == span
    assert Window(86400).fitted(AT, AT - age).span == 86400


def test_nothing_that_is_to_come_is_shown() -> None:
    assert Window(300, AT + 10).fitted(AT, AT) == Window(300)
    assert Window(300, AT - 10).fitted(AT, AT) == Window(300, AT - 10)


def test_moving_ends_at_now() -> None:
    before = Window(3600).moved(AT, -1800)
    assert before.until == AT - 1800
    assert before.moved(AT, -1800).until == AT - 3600
    assert before.moved(AT, 1800) == Window(3600)


def test_another_length_has_the_same_middle() -> None:
    before = Window(3600, AT - 36000)
    wider = before.scaled(AT, 7200)
    assert wider.until == AT - 36000 + 1800
    assert wider.scaled(AT, 3600) == before
    assert Window(3600).scaled(AT, 300) == Window(300), "what is live stays live"


def test_the_way_to_other_times() -> None:
    live = Reader(tools(Window(3600), AT))
    assert live.tags.count("a") == 2 + len(SPANS), "there is no later than now"
    assert "now" in live.words
    before = Reader(tools(Window(3600, AT - 3600), AT))
    assert before.tags.count("a") == 3 + len(SPANS)
    assert "now" not in before.words


# --- bars


def test_the_workers_of_an_attempt_on_a_node_are_one_bar() -> None:
    found = bars(
        [
            span("17.2.0", -20, devices=["GPU-1"]),
            span("17.1.0", -60, -40, devices=["GPU-0"]),
            span("17.1.1", -50, -30, devices=["GPU-1"]),
            span("17.1.2", -50, -30, node="gpu2"),
        ]
    )
    assert [bar.key for bar in found] == [(17, 1, "gpu1"), (17, 1, "gpu2"), (17, 2, "gpu1")]
    assert [(bar.start - AT, bar.end and bar.end - AT, bar.workers) for bar in found] == [
        (-60, -30, 2), (-50, -30, 1), (-20, None, 1),
    ]  # fmt: skip
    assert found[0].devices == ("GPU-0", "GPU-1")


def test_a_bar_runs_while_one_of_its_workers_does() -> None:
    (bar,) = bars([span("17.1.0", -60, -40), span("17.1.1", -60)])
    assert bar.end is None
    assert bar.ran(AT) == 60


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "succeeded"),
        ({"exit": {"code": 0, "text": "exit code 0"}}, "succeeded"),
        ({"exit": {"code": 1, "text": "exit code 1"}}, "exit code 1"),
        ({"exit": {"code": None, "text": "killed by SIGTERM"}, "stop": "preempt"}, "stopped: preempt"),
    ],
)
def test_how_it_ended_is_told(more: dict[str, Any], words: str) -> None:
    assert words in Reader(rows(bars([span("17.1.0", -60, -40, **more)]), AT)).words


def test_names_are_no_markup() -> None:
    seen = Reader(rows(bars([span(name="<img src=x>")]), AT))
    assert "img" not in seen.tags
    assert "<img src=x>" in seen.words


MOMENTS = st.integers(0, 50)
PIECES = st.lists(
    st.tuples(st.sampled_from(["gpu1", "gpu2"]), MOMENTS, st.none() | st.integers(0, 20)), max_size=25
)  # fmt: skip


def made(pieces: list[tuple[str, int, int | None]]) -> list[Bar]:
    given = [
        span(f"{job}.1.0", start, None if length is None else start + length, node=node)
        for job, (node, start, length) in enumerate(pieces, 1)
    ]
    return bars(given)


@given(PIECES, st.integers(0, 25), MOMENTS)
def test_no_bar_covers_another_and_each_stays_where_it_was(
    pieces: list[tuple[str, int, int | None]], later: int, gone: int
) -> None:
    drawn = made(pieces)
    known = drawn[: len(drawn) - later] if later < len(drawn) else []
    before = lanes(known, {})
    now = [bar for bar in drawn if bar.end is None or bar.end >= AT + gone]  # the window has moved on
    placed = lanes(now, before)
    assert {bar.key: placed[bar.key] for bar in now if bar.key in before} == {
        bar.key: before[bar.key] for bar in now if bar.key in before
    }
    for n, one in enumerate(now):
        for other in now[n + 1 :]:
            if one.key[2] == other.key[2] and placed[one.key] == placed[other.key]:
                assert one.end is not None
                assert one.end <= other.start


def test_the_chart_has_a_band_for_each_server_and_a_bar_for_each_job() -> None:
    drawn = bars([span("17.1.0", -60), span("18.1.0", -50, -30), span("19.1.0", -20, node="gpu2")])
    option = chart(drawn, lanes(drawn, {}), ["gpu1", "gpu2", "idle"], Window(300), AT, anew=True)
    bands, items = (series["data"] for series in option["series"])
    assert [band[3] for band in bands] == ["gpu1", "gpu2", "idle"]
    assert [item["job"] for item in items] == [17, 18, 19]
    for item, band in zip(items, (bands[0], bands[0], bands[1]), strict=True):
        _, _, y, thick, _, _ = item["value"]
        assert band[1] <= y
        assert y + thick <= band[1] + band[2]
    assert items[0]["value"][1] == AT * 1000, "what runs reaches to now"
    assert option["xAxis"]["max"] - option["xAxis"]["min"] == 300_000
    assert height(option) > option["grid"]["height"]


def test_many_bars_are_thin() -> None:
    drawn = bars([span(f"{n}.1.0", -60) for n in range(1, 101)])
    option = chart(drawn, lanes(drawn, {}), ["gpu1"], Window(300), AT, anew=False)
    assert height(option) < 1100
    assert "start" not in option["dataZoom"][0], "how far somebody has zoomed in stays"
