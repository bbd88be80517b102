"""The live view: one frame from JSON, at several sizes."""

import io
import re
from datetime import UTC, datetime

import pytest
from rich.console import Console

from schedulearn.cli.view.frame import frame

LATER = datetime(2026, 3, 1, 10, 6, tzinfo=UTC)


def draw(data, width, height=None):
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(frame(data, LATER, width, height))
    return console.file.getvalue()


@pytest.fixture
def data(jobs):
    from schedulearn.cli.top import gather
    from schedulearn.client import Client

    with Client() as client:
        return gather(client)


@pytest.mark.parametrize("width", [60, 80, 160])
def test_a_frame_fits_and_shows_what_matters(data, width):
    shown = draw(data, width)
    assert max(map(len, shown.splitlines())) <= width
    for text in ("1 running", "1 queued", "local", "1 of 7", " 12 %", "0.3125", "36 min", "18", "19", "failed"):
        assert text in shown
    assert "█▄▂▁▁" in shown


def test_the_queue_gives_place_and_reason(data):
    shown = draw(data, 160)
    assert re.search(r"1  18  mnist-18 .* 50 .* in \d+ min  It needs 1 GPU", shown)


def test_a_small_terminal_shows_less_and_says_so(data):
    data["queued"] = [{**data["queued"][0], "id": number} for number in range(100, 120)]
    data["counts"]["queued"] = 500
    shown = draw(data, 100, height=24)
    assert len(shown.splitlines()) <= 24
    assert re.search(r"and 4\d\d more", shown)
    assert "mnist-17" in shown


def test_an_empty_service(data):
    empty = {**data, "running": [], "queued": [], "finished": [], "explain": {}, "counts": {}}
    shown = draw(empty, 80)
    assert "Running  none" in shown
    assert "Queue  none" in shown


def test_once_into_a_pipe_shortens_nothing(cli, data):
    result = cli("top", "--once")
    assert result.code == 0
    assert "It needs 1 GPU and 1 core on one node; the most free on one node is 0 GPUs." in result.out
    assert not re.search(r"[…│┃\x1b]", result.out)
    assert all(line == line.rstrip() for line in result.out.splitlines())


def test_once_in_a_terminal(terminal, data):
    code, shown = terminal(80, "top", "--once")
    assert code == 0
    assert "Running" in shown


def test_json(cli, data):
    assert cli("top", "--json").json["counts"] == {"running": 1, "queued": 1, "finished": 2}
