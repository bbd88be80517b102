"""One frame of the live view: nodes, what runs, what waits, what has just ended. JSON in, something to draw out."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypedDict

from schedulearn.cli.view import nodes as node_view
from schedulearn.cli.view.jobs import FINISHED, QUEUED, RUNNING, rows
from schedulearn.cli.view.table import Column, Row, rows_of, table_lines
from schedulearn.cli.view.text import coloured
from schedulearn.wire.clean import clean
from schedulearn.wire.words import Json

if TYPE_CHECKING:
    from rich.console import RenderableType


class FrameData(TypedDict):
    """What a frame shows, as the API gives it."""

    nodes: Sequence[Json]
    running: Sequence[Json]  # jobs: starting, running, paused, stopping
    queued: Sequence[Json]  # the first jobs of the queue
    finished: Sequence[Json]  # the last that ended, newest first
    explain: dict[int, Json]  # of queued jobs: position, text, estimate
    counts: dict[str, int]  # how many there are in all: running, queued, finished
    policy: str


_WIDE = 100  # columns: room for bars
_FIXED_LINES = 17  # header, titles, column heads, "and more" and gaps


def frame(data: FrameData, now: datetime, width: int, height: int | None = None) -> "RenderableType":
    """The whole view for a terminal of this size; without a height nothing is left out."""
    from rich.console import Group
    from rich.text import Text

    sections = {
        "running": ("Running", RUNNING, data["running"]),
        "queued": ("Queue", QUEUED, _by_place(data)),
        "finished": ("Finished", FINISHED, data["finished"]),
    }
    room = _share_out({name: len(jobs) for name, (_, _, jobs) in sections.items()}, len(data["nodes"]), height)
    parts: list[RenderableType] = [_header(data, now), Text("")]
    of_nodes = node_view.node_columns(bars=10 if width >= _WIDE else 0)
    parts += _section("Nodes", of_nodes, rows_of(of_nodes, data["nodes"]), width, len(data["nodes"]))
    for name, (title, columns, jobs) in sections.items():
        if jobs or name != "finished":
            shown = rows(columns, jobs[: room[name]], data["explain"], width, now)
            parts += _section(title, columns, shown, width, data["counts"].get(name, len(jobs)))
    return Group(*parts[:-1])


def _by_place(data: FrameData) -> list[Json]:
    """In the order of their places; those whose place is not known come last."""
    places = data["explain"]
    return sorted(data["queued"], key=lambda job: ((places.get(job["id"]) or {}).get("position") or 10**9, job["id"]))


def _share_out(sizes: dict[str, int], nodes: int, height: int | None) -> dict[str, int]:
    """How many rows each section gets: running jobs first, a few of each in any case."""
    if height is None:
        return sizes
    left = max(3, height - _FIXED_LINES - nodes)
    rooms = dict.fromkeys(sizes, 0)
    while left > 0 and rooms != sizes:
        for name in sizes:
            if rooms[name] < sizes[name] and left > 0:
                rooms[name] += 1
                left -= 1
    return rooms


def _header(data: FrameData, now: datetime) -> "RenderableType":
    from rich.text import Text

    words = [f"{data['counts'].get(name, 0)} {name}" for name in ("running", "queued", "finished")]
    words += [f"policy {clean(data['policy'])}", f"{now.astimezone():%H:%M:%S}"]
    header = Text.assemble(("Schedulearn", "bold cyan"), "  ", (" · ".join(words), "dim"))
    header.no_wrap, header.overflow = True, "ellipsis"
    return header


def _section(
    title: str, columns: Sequence[Column], rows: Sequence[Row], width: int, total: int
) -> "list[RenderableType]":
    from rich.text import Text

    head = Text(title, style="bold underline")
    if not rows:
        return [Text.assemble(head, (f"  {total or 'none'}", "dim")), Text("")]
    more = [Text(f"and {total - len(rows)} more", style="dim")] if total > len(rows) else []
    return [head, *map(Text.from_ansi, table_lines(columns, rows, width, coloured)), *more, Text("")]
