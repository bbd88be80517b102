"""The status line under a job's output: it gives way to output, and never breaks into an unfinished line."""

import io
import sys

import pytest

from schedulearn.cli.common.follow import StatusLine

ERASE = b"\r\x1b[K"


@pytest.fixture
def terminal(monkeypatch):
    """Called in the test, it makes stdout and stderr one terminal, and returns what that terminal is sent.

    (Not before the test begins: pytest sets its own streams at that moment.)
    """
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    streams = []

    def attach() -> io.BytesIO:
        shown = io.BytesIO()
        for name in ("stdout", "stderr"):
            stream = io.TextIOWrapper(shown, "utf-8", write_through=True)
            stream.isatty = lambda: True
            streams.append(stream)
            monkeypatch.setattr(sys, name, stream)
        return shown

    yield attach
    for stream in streams:
        stream.detach()


def test_output_goes_above_the_status(terminal):
    screen = terminal()
    line = StatusLine()
    line.update("running")
    line.write(b"epoch 1\n")
    line.close()
    assert screen.getvalue() == b"\x1b[2mrunning\x1b[0m" + ERASE + b"epoch 1\n" + b"\x1b[2mrunning\x1b[0m" + ERASE


def test_an_unfinished_line_is_left_alone(terminal):
    screen = terminal()
    line = StatusLine()
    line.write(b"50 %")
    line.update("running")
    line.write(b"\r100 %")
    assert screen.getvalue() == b"50 %\r100 %"
    line.close()
    assert screen.getvalue() == b"50 %\r100 %\n"


def test_the_status_is_cut_to_the_width(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    screen = terminal()
    StatusLine().update("x" * 100)
    assert screen.getvalue().count(b"x") == 18
    assert "…" in screen.getvalue().decode()
