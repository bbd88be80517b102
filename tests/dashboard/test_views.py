"""What pages are made of, without a browser: markup, addresses, figures of curves, output."""

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.client import Client, types
from schedulearn.dashboard.common.watch import OutputReader, plain
from schedulearn.dashboard.views import charts
from schedulearn.dashboard.views.job import attempts, not_there
from schedulearn.dashboard.views.jobs import Wanted, pager
from schedulearn.dashboard.views.markup import el, join
from schedulearn.dashboard.views.parts import cores, spark
from schedulearn.dashboard.views.policies import in_force

# --- markup


class Reader(HTMLParser):
    """What a browser would make of it."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words = ""
        self.attributes: dict[str, str | None] = {}
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= dict(attrs)

    def handle_data(self, data: str) -> None:
        self.words += data


_PIECES = st.sampled_from(["<b>", "</p>", "<script>", "<!--", "&", "&lt;", "&amp;", '"', "'", "`", ">", "é"])
TEXT = st.lists(_PIECES | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=5)).map("".join)


@given(TEXT, TEXT)
def test_no_text_becomes_markup(text: str, value: str) -> None:
    seen = Reader(el("p", text, el("b", [text, None]), title=value))
    assert seen.tags == ["p", "b"]
    assert seen.words == text + text
    assert seen.attributes["title"] == value


@pytest.mark.parametrize(
    ("problems", "words"),
    [
        ([], "There is no other server to move the job to."),
        ([None, None], ""),
        ([None, "b is lost"], "b is lost"),
        (["a is lost", "b is full"], "No other server can take the job now:a is lostb is full"),
    ],
)
def test_where_a_job_cannot_move_and_why(problems: list[str | None], words: str) -> None:
    moves: list[types.PossibleMove] = [{"node": "x", "problem": problem} for problem in problems]
    assert re.sub("<[^>]*>", "", not_there(moves)) == words


def test_how_a_worker_ended_is_told_in_words() -> None:
    here: Any = {"worker": "1.1.0", "node": "a", "devices": [], "started_at": None, "ended_at": None, "exit": None}
    shown = attempts([cast(types.Attempt, {"number": 1, "workers": [here], "stop": None})], datetime.now(UTC))
    assert "running</td>" in shown


def test_the_policy_in_force_says_how_good_estimates_were() -> None:
    errors = types.SourceErrors(source="loss curve", count=31, error=0.8, without=0.25, believed=False)
    policy = types.Policy(
        preset="fifo",
        stages={},
        params={},
        available={"stages": {}},
        fault=None,
        sharing_problems={},
        estimates=[errors],
    )
    shown = Reader(in_force(policy)).words
    assert "estimates by loss curve" in shown
    assert (
        "half of the last 31 off by more than 80 % (jobs like them: 25 %); not believed until it does better" in shown
    )


def test_markup_is_escaped_once() -> None:
    assert el("a", "<&", href="/?a=1&b=2", hidden=True, name=None, data_go=False) == (
        '<a href="/?a=1&amp;b=2" hidden>&lt;&amp;</a>'
    )
    assert join(el("br"), "x") == "<br>x"


# --- the table of jobs

WANTED = st.builds(
    Wanted,
    st.sampled_from(["", "active", "failed"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.sampled_from(["id", "name"]),
    st.sampled_from(["asc", "desc"]),
    st.integers(1, 10**6),
)


@given(WANTED)
def test_an_address_says_what_is_wanted(wanted: Wanted) -> None:
    assert Wanted.parse(wanted.address.partition("?")[2]) == wanted


@pytest.mark.parametrize(
    "query", ["", "?", "page=0", "page=-1", "page=x", "page=²", "state=nothing", "sort=spec", "order=up", "%%%&=&x"]
)
def test_an_address_that_makes_no_sense_is_the_first_page(query: str) -> None:
    assert Wanted.parse(query) == Wanted()


def test_sorting_by_the_same_column_turns_it_round() -> None:
    by_name = Wanted(page=7).sorted_by("name")
    assert (by_name.sort, by_name.order, by_name.page) == ("name", "asc", 1)
    assert by_name.sorted_by("name").order == "desc"
    assert by_name.sorted_by("name").sorted_by("name").order == "asc"


@pytest.mark.parametrize(
    ("total", "page", "words", "links"),
    [(0, 1, "1–0 of 0", 0), (50, 1, "1–50 of 50", 0), (51, 1, "1–50 of 51", 2), (151, 2, "51–100 of 151", 4)],
)
def test_the_pager_leads_where_there_is_something(total: int, page: int, words: str, links: int) -> None:
    seen = Reader(pager(total, Wanted(page=page)))
    assert words in seen.words
    assert seen.tags.count("a") == links


# --- figures


@pytest.mark.parametrize(
    ("amount", "text"), [(0.09757, "0.1"), (1.5, "1.5"), (12, "12"), (None, ""), (0.0, "0"), (128.0, "128")]
)
def test_cores_are_short(amount: float | None, text: str) -> None:
    assert cores(amount) == text


@pytest.mark.parametrize("values", [[], [1.0], [None, None], [None, 2.0]])
def test_a_curve_needs_two_points(values: list[float | None]) -> None:
    assert spark(values, 1) == ""


def test_a_curve_goes_from_left_to_right_and_the_best_lies_low() -> None:
    points = Reader(spark([3.0, None, 1.0, 1.0], 1)).attributes["points"]
    pairs = [tuple(map(float, pair.split(","))) for pair in str(points).split()]
    assert [x for x, _ in pairs] == sorted(x for x, _ in pairs)
    assert pairs[0][1] < pairs[-1][1], "y grows downwards"


def look(at: int, **values: Any) -> types.Look:
    names = ("cpus", "memory", "read_bytes", "written_bytes", "received_bytes", "sent_bytes", "cpus_limit")
    return cast(types.Look, {**dict.fromkeys(names), "at": f"2030-01-01T00:00:{at:02d}Z", **values})


def usage(*looks: types.Look) -> types.WorkerUsage:
    return cast(types.WorkerUsage, {"worker": "1.1.0", "points": list(looks)})


def lines(option: charts.Option) -> dict[str, list[float | None]]:
    return {one["name"]: [value for _, value in one["data"]] for one in option["series"]}


def test_what_workers_use_is_summed_and_counters_become_rates() -> None:
    one = usage(look(0, cpus=0.5, cpus_limit=1.0, read_bytes=0, written_bytes=0),
                look(5, cpus=1.0, cpus_limit=1.5, read_bytes=5_000_000, written_bytes=5_000_000))  # fmt: skip
    other = usage(look(0, cpus=0.25, cpus_limit=1.0), look(5, cpus=0.5, cpus_limit=1.5))
    drawn = lines(charts.over_time({1: [one, other]}, [], [], [], "loss"))
    assert drawn["used"] == [0.75, 1.5, None], "a gap after each attempt"
    assert drawn["limit"] == [2.0, 3.0, None]
    assert drawn["disk"] == [2.0, None]
    assert "network" not in drawn, "what no machine can tell is left out"


def test_all_strips_have_one_axis_of_time() -> None:
    series = cast(types.Series, {"name": "loss", "points": [(1, 0.5, "2030-01-01T00:00:30Z")]})
    option = charts.over_time({1: [usage(look(0, cpus=1.0), look(5, cpus=1.0))]}, [], [], [series], "loss")
    assert [title["text"] for title in option["title"]] == ["loss", "cores"]
    assert len({(axis["min"], axis["max"]) for axis in option["xAxis"]}) == 1
    assert option["xAxis"][0]["max"] - option["xAxis"][0]["min"] == 30_000


def event(kind: str, cause: str = "", attempt: int = 1, **data: Any) -> types.Event:
    return cast(
        types.Event, {"at": "2030-01-01T00:00:00Z", "kind": kind, "cause": cause, "attempt": attempt, "data": data}
    )


@pytest.mark.parametrize(
    ("happened", "words"),
    [
        (event("resized", **{"from": 2, "to": 4}), "2→4"),
        (event("worker_lost"), "worker lost"),
        (event("migrated"), "moved"),
        (event("stop", "resized from 1 to 2 workers"), "resized"),
        (event("start", attempt=2), "attempt 2"),
    ],
)
def test_changes_are_marked(happened: types.Event, words: str) -> None:
    assert [mark["name"] for mark in charts.marks([happened, event("start"), event("stop", "cancelled")])] == [words]


def worker(start: str | None, end: str | None, left: str | None = None) -> Any:
    return {"started_at": start, "ended_at": end, "left_at": left}


def test_workers_are_counted_whenever_one_comes_or_goes() -> None:
    first, second, third = (f"2030-01-01T00:00:0{n}Z" for n in (1, 2, 3))
    attempts: Any = [{"workers": [worker(first, None), worker(second, third), worker(None, None)]}]
    at = charts.milliseconds
    assert charts.worker_counts(attempts, at(third) + 1) == [
        (at(first), 1), (at(second), 2), (at(third), 1), (at(third) + 1, 1),
    ]  # fmt: skip


# --- output


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;32mgreen\x1b[0m", "green"),
        ("\x1b]0;title\x07text", "text"),
        ("10 %\r20 %\r30 %\n", "30 %\n"),
        ("dos\r\nlines\r\n", "dos\nlines\n"),
        ("<b>", "<b>"),
    ],
)
def test_output_is_plain(text: str, shown: str) -> None:
    assert plain(text) == shown


class Outputs:
    """A client of a job with these outputs, by attempt."""

    def __init__(self, **outputs: bytes) -> None:
        self.outputs = {int(name.removeprefix("_")): data for name, data in outputs.items()}

    def log_part(
        self, job: int, attempt: int, worker: int, offset: int | None = None, tail: int | None = None
    ) -> tuple[bytes, int]:
        data = self.outputs[attempt][offset or 0 :]
        return data, (offset or 0) + len(data)


def test_output_comes_once_and_goes_on_with_the_next_attempt() -> None:
    outputs = Outputs(_1="grün".encode()[:3])  # cut within a character
    client, reader = cast(Client, outputs), OutputReader(1)
    assert reader.read(client, 0) == ""
    assert reader.read(client, 1) == "gr"
    outputs.outputs[1] = "grün".encode()
    assert reader.read(client, 1) == "ün"
    assert reader.read(client, 1) == ""
    outputs.outputs |= {1: "grün, the end".encode(), 2: b"again"}
    assert reader.read(client, 2) == ", the end\n— attempt 2 —\nagain"
