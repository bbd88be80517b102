"""What is printed: colours where they are seen, lines that fit the terminal, plain text or JSON for all else."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from schedulearn.cli.view.table import Column, Row, rows_of, table_lines
from schedulearn.cli.view.terminal import OutputFilter, json_text, only_colours
from schedulearn.cli.view.text import broken, coloured, columns_of
from schedulearn.wire.clean import clean

_NARROW = 20  # columns: with less room a value goes below its label


def colourful(stream: TextIO) -> bool:
    """On a terminal; with `FORCE_COLOR` in a pipe too. `NO_COLOR` has the last word."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def paint(text: str, style: str, stream: TextIO | None = None) -> str:
    """The text in a colour, if the stream shows colours."""
    return coloured(text, style) if colourful(stream or sys.stdout) else text


def _print(text: str, stream: TextIO | None = None) -> None:
    """The one way out for words, so that nothing in them steers the terminal, whoever wrote them."""
    print(only_colours(text), file=stream or sys.stdout, flush=stream is not None)


def say(text: str = "", style: str = "") -> None:
    _print(paint(wrapped(text), style))


def note(text: str, style: str = "") -> None:
    """To stderr: what a program that reads stdout should not see."""
    _print(paint(wrapped(text, stream=sys.stderr), style, sys.stderr), sys.stderr)


def note_hint(job: Mapping[str, Any]) -> None:
    """If the job asks for far more, or less, than jobs like it."""
    if job.get("hint"):
        note(f"Hint: {clean(job['hint'])}", "yellow")


def say_json(value: object) -> None:
    print(json_text(value))


def answer(value: object, as_json: bool, words: str, style: str = "", steps: Mapping[str, str] | None = None) -> None:
    """What came of a verb: as JSON, or in words with the commands that are useful now."""
    if as_json:
        say_json(value)
        return
    say(words, style)
    next_steps(steps or {})


def width() -> int:
    """Of the terminal; `COLUMNS` comes first."""
    return shutil.get_terminal_size((80, 24)).columns


def wrapped(text: str, indent: int | None = None, stream: TextIO | None = None) -> str:
    """Broken between words to fit a terminal, its later lines indented; for anything else it stays one line.

    Without an `indent`, the first line's own counts, and two columns more.
    """
    if not (stream or sys.stdout).isatty():
        return text
    own = len(text) - len(text.lstrip(" "))
    later = own + 2 if indent is None else indent
    first, *others = broken(text, width() - (indent or 0))
    rest = " ".join(line.strip() for line in others)
    lines = [first, *(broken(rest, width() - later) if rest else ())]
    return ("\n" + " " * later).join(lines)


def answer_table(columns: Sequence[Column], things: Sequence[Any], as_json: bool) -> None:
    """The things as JSON, or as a table with a row for each."""
    if as_json:
        say_json(things)
    else:
        say_table(columns, rows_of(columns, things))


def say_table(columns: Sequence[Column], rows: Sequence[Row]) -> None:
    for line in table_lines(columns, rows, width() if sys.stdout.isatty() else None, paint):
        _print(line)


def say_facts(facts: Sequence[tuple[str, str]]) -> None:
    """`label  value` lines; those without a value are left out. On a narrow terminal a value goes below its label."""
    known = [(label, value) for label, value in facts if value]
    pad = max((columns_of(label) for label, _ in known), default=0) + 2
    below = sys.stdout.isatty() and width() - pad < _NARROW
    for label, value in known:
        if below:
            _print(paint(label, "dim") + "\n    " + wrapped(value, 4))
        else:
            _print(paint(label + " " * (pad - columns_of(label)), "dim") + wrapped(value, pad))


def next_steps(steps: Mapping[str, str]) -> None:
    """The commands that are useful now: what they do → how they are written. A command is never broken."""
    pad = max((len(does) for does in steps), default=0) + 2
    for does, command in steps.items():
        fits = not sys.stdout.isatty() or 2 + pad + columns_of(command) <= width()
        _print("  " + paint(does.ljust(pad) if fits else f"{does}\n    ", "dim") + paint(command, "cyan"))


def of_job(job: Mapping[str, Any]) -> str:
    return f"Job {job['id']} ({clean(job['name'])})"


class JobOutput:
    """What a job writes, to a stream of ours: byte for byte, but on a terminal without what would steer it."""

    def __init__(self, stream: TextIO, raw: bool = False) -> None:
        self._stream = stream
        self._filter = None if raw or not stream.isatty() else OutputFilter(stream.encoding)

    def write(self, data: bytes) -> bytes:
        """Returns what was written."""
        return self._put(self._filter.feed(data) if self._filter else data)

    def close(self) -> bytes:
        return self._put(self._filter.close() if self._filter else b"")

    def _put(self, data: bytes) -> bytes:
        self._stream.flush()  # our own words that were written before
        self._stream.buffer.write(data)
        self._stream.buffer.flush()
        return data
