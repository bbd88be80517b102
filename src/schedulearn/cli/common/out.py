"""What is printed: colours where they are seen, lines that fit the terminal, plain text or JSON for all else."""

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from schedulearn.cli.view.table import Column, Row, table_lines
from schedulearn.cli.view.text import broken, coloured, columns_of
from schedulearn.cli.view.words import clean

_NARROW = 20  # columns: with less room a value goes below its label


def colourful(stream: TextIO) -> bool:
    """On a terminal; with `FORCE_COLOR` in a pipe too. `NO_COLOR` has the last word."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def paint(text: str, style: str, stream: TextIO | None = None) -> str:
    """The text in a colour, if the stream shows colours."""
    return coloured(text, style) if colourful(stream or sys.stdout) else text


def say(text: str = "", style: str = "") -> None:
    print(paint(wrapped(text), style))


def note(text: str, style: str = "") -> None:
    """To stderr: what a program that reads stdout should not see."""
    print(paint(wrapped(text, stream=sys.stderr), style, sys.stderr), file=sys.stderr, flush=True)


def note_hint(job: Mapping[str, Any]) -> None:
    """If the job asks for far more, or less, than jobs like it."""
    if job.get("hint"):
        note(f"Hint: {clean(job['hint'])}", "yellow")


def say_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


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


def say_table(columns: Sequence[Column], rows: Sequence[Row]) -> None:
    for line in table_lines(columns, rows, width() if sys.stdout.isatty() else None, paint):
        print(line)


def say_facts(facts: Sequence[tuple[str, str]]) -> None:
    """`label  value` lines; those without a value are left out. On a narrow terminal a value goes below its label."""
    known = [(label, value) for label, value in facts if value]
    pad = max((columns_of(label) for label, _ in known), default=0) + 2
    below = sys.stdout.isatty() and width() - pad < _NARROW
    for label, value in known:
        if below:
            print(paint(label, "dim") + "\n    " + wrapped(value, 4))
        else:
            print(paint(label + " " * (pad - columns_of(label)), "dim") + wrapped(value, pad))


def next_steps(steps: Mapping[str, str]) -> None:
    """The commands that are useful now: what they do → how they are written. A command is never broken."""
    pad = max(len(does) for does in steps) + 2
    for does, command in steps.items():
        fits = not sys.stdout.isatty() or 2 + pad + columns_of(command) <= width()
        print("  " + paint(does.ljust(pad) if fits else f"{does}\n    ", "dim") + paint(command, "cyan"))


def of_job(job: Mapping[str, Any]) -> str:
    return f"Job {job['id']} ({clean(job['name'])})"
