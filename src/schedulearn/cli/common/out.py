"""What is printed: colours only on a terminal, tables that fit it, and plain text or JSON for everything else."""

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from schedulearn.cli.view.table import Column, Row, plain_table
from schedulearn.cli.view.words import clean

_NARROW = 20  # columns: with less room breaking lines makes nothing better
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36"}


def colourful(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str, stream: TextIO | None = None) -> str:
    """The text in a colour, if the stream shows colours."""
    if not text or not style or not colourful(stream or sys.stdout):
        return text
    return "".join(f"\x1b[{_CODES[part]}m" for part in style.split()) + text + "\x1b[0m"


def say(text: str = "", style: str = "") -> None:
    print(paint(text, style))


def note(text: str, style: str = "") -> None:
    """To stderr: what a program that reads stdout should not see."""
    print(paint(text, style, sys.stderr), file=sys.stderr, flush=True)


def note_hint(job: Mapping[str, Any]) -> None:
    """If the job asks for far more, or less, than jobs like it."""
    if job.get("hint"):
        note(f"Hint: {clean(job['hint'])}", "yellow")


def say_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def width() -> int:
    """Of the terminal; `COLUMNS` comes first."""
    return shutil.get_terminal_size((80, 24)).columns


def wrapped(text: str, indent: int = 0) -> str:
    """Broken between words to fit a terminal, its later lines indented; for anything else it stays one line."""
    room = width() - indent
    if not sys.stdout.isatty() or len(text) <= room or room < _NARROW:
        return text
    return textwrap.fill(text, room, break_long_words=False, break_on_hyphens=False).replace("\n", "\n" + " " * indent)


def say_table(columns: Sequence[Column], rows: Sequence[Row]) -> None:
    if not sys.stdout.isatty():
        print(plain_table(columns, rows))
        return
    from rich.console import Console

    from schedulearn.cli.view.table import rich_table

    table = rich_table(columns, rows, width())
    # What may not be shortened is not: then the terminal breaks the line, and nothing is lost.
    needed = sum((column.width or 0) + 2 for column in table.columns)
    Console(width=max(width(), needed)).print(table)


def say_facts(facts: Sequence[tuple[str, str]]) -> None:
    """`label  value` lines; those without a value are left out."""
    known = [(label, value) for label, value in facts if value]
    pad = max((len(label) for label, _ in known), default=0) + 2
    for label, value in known:
        print(paint(label.ljust(pad), "dim") + wrapped(value, pad))


def next_steps(steps: Mapping[str, str]) -> None:
    """The commands that are useful now: what they do → how they are written."""
    pad = max(len(does) for does in steps) + 2
    for does, command in steps.items():
        print("  " + paint(does.ljust(pad), "dim") + paint(command, "cyan"))


def of_job(job: Mapping[str, Any]) -> str:
    return f"Job {job['id']} ({job['name']})"
