"""The files beside a report's page: tables as CSV, and what the page says in short."""

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from schedulearn.core.domain.errors import InvalidSpec


def make_folder(path: Path) -> None:
    """Before anything runs: that the results cannot be written should not be learnt after an hour."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidSpec("out", f"cannot make the folder {path}: {error.strerror}") from error


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    return path


def write_summary(
    folder: Path,
    kind: str,
    title: str,
    about: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    best: Sequence[Sequence[bool]] = (),
) -> Path:
    """`report.json`: what the page says in short, as a table of texts, for programs that list reports."""
    path = folder / "report.json"
    content = {"kind": kind, "title": title, "about": about, "columns": columns, "rows": rows, "best": best}
    path.write_text(json.dumps(content), "utf-8")
    return path
