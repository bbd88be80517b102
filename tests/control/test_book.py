"""Where jobs are and how large they are is written in one place."""

import ast
from collections.abc import Iterator
from pathlib import Path

from support.pages import ROOT

SOURCE = ROOT / "src" / "schedulearn"
OWNER = SOURCE / "core" / "control" / "book.py"
OWNED = {"placements", "suspended_at", "cores", "shape", "move"}


def written(file: Path) -> Iterator[str]:
    """The owned fields that a file assigns to, of anything but its own objects."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store | ast.Del):
            continue
        own = isinstance(node.value, ast.Name) and node.value.id == "self"
        if node.attr in OWNED and not own:
            yield f"{file.relative_to(SOURCE)}:{node.lineno} {node.attr}"


def test_the_book_alone_writes_where_jobs_are() -> None:
    files = [file for file in SOURCE.rglob("*.py") if file != OWNER]
    assert [line for file in files for line in written(file)] == []


def test_the_owner_does_write_them() -> None:
    assert {line.split()[-1] for line in written(OWNER)} == OWNED
