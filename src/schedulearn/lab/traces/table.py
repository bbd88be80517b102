"""The lines of a file, and comma-separated rows with a header: found by their name, checked for their number.

Blank lines are no rows. A quoted field may hold commas, not line ends: so a quote that is never closed spoils one row,
not the rest of the file.
"""

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.lab.traces.fields import BadRow, shown
from schedulearn.lab.traces.types import Problem, TraceJob

T = TypeVar("T")
Rows = tuple[list[T], list[Problem]]


@dataclass(frozen=True, slots=True)
class Source:
    """A file that was read, and what its reader may need besides."""

    path: Path
    lines: Sequence[str]
    profiles: Path | None = None  # measured profiles of the models; None: beside the file
    by_progress: bool = False  # whether jobs of such models end by statistical progress, or with their last epoch
    goodput: bool = False  # whether such jobs leave their batch size to the scheduler

    @property
    def head(self) -> str:
        """The first line that is not blank, or nothing."""
        return next((line for line in self.lines if line.strip()), "")


@dataclass(frozen=True, slots=True)
class Format:
    recognises: Callable[[str], bool]  # by the first line
    expects: str  # what that line must hold, for people
    read: Callable[[Source], Rows[TraceJob]]


def read_lines(path: Path) -> list[str]:
    """Any line ends, with or without a byte-order mark. Bytes that are no UTF-8 stay visible as `\\xe9`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidSpec("trace", f"cannot read {path}: {error.strerror}") from error
    text = data.decode("utf-8-sig", errors="backslashreplace")
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def csv_format(columns: Sequence[str], read: Callable[[Source], Rows[TraceJob]]) -> Format:
    """A format that is known by the columns it needs."""
    return Format(lambda head: set(columns) <= set(header_of(head)), ", ".join(columns), read)


def read_table(
    source: Source,
    columns: Sequence[str],
    make: Callable[[int, Sequence[str]], T],
    optional: Sequence[str] = (),
    separator: str = ",",
) -> Rows[T]:
    """Give `make` each row's line and the text of its `columns`, then of `optional` ones (empty where absent)."""
    rows = _split_rows(source.lines, separator)
    header = header_of(source.head, separator)
    next(rows, None)
    missing = [column for column in columns if column not in header]
    if missing:
        raise InvalidSpec("trace", f"the header of {source.path} has no column {', '.join(missing)}")
    # An absent optional column is read from one more field, put at the end of every row.
    wanted = [header.index(column) if column in header else len(header) for column in (*columns, *optional)]
    pick: Callable[[list[str]], Sequence[str]] = itemgetter(*wanted)
    made: list[T] = []
    problems: list[Problem] = []
    for line, fields in rows:
        try:
            if len(fields) != len(header):
                raise BadRow(_wrong_width(fields, len(header), separator))
            fields.append("")
            made.append(make(line, pick(fields)))
        except BadRow as error:
            problems.append(Problem(line, str(error)))
    return made, problems


def _split_rows(lines: Sequence[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """Only where commas separate fields do quotes hold some together."""
    for number, line in enumerate(lines, 1):
        if '"' in line and separator == ",":
            yield number, _split_quoted(line)
        elif line and not line.isspace():
            yield number, line.split(separator)


def _split_quoted(line: str) -> list[str]:
    """The fields of a row with quotes; no fields at all where the quotes are wrong."""
    try:
        return next(csv.reader([line], strict=True, skipinitialspace=True))
    except csv.Error:
        return []


def header_of(line: str, separator: str = ",") -> list[str]:
    fields = _split_quoted(line) if '"' in line and separator == "," else line.split(separator)
    return [field.strip().lower() for field in fields]


def _wrong_width(fields: Sequence[str], width: int, separator: str) -> str:
    if not fields:
        return "a quote is not closed, or not at the edge of its field"
    return f"has {len(fields)} columns where the header has {width}: {shown(separator.join(fields))}"
