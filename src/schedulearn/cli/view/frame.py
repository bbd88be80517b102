"""One frame of the live view: nodes, what runs, what waits, what has just ended. JSON in, something to draw out."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

from schedulearn.cli.view import nodes as node_view
from schedulearn.cli.view.jobs import curve
from schedulearn.cli.view.table import Cell, Column, Row, table_lines
from schedulearn.cli.view.text import coloured
from schedulearn.wire.clean import clean
from schedulearn.wire.words import (
    STATE_STYLE,
    Json,
    ago,
    bar,
    duration,
    eta,
    metric,
    nodes_of,
    share_done,
    steps_done,
    why,
)

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


RUNNING = (
    Column("ID", right=True),
    Column("NAME", flex=True),
    Column("USER", flex=True, need=100),
    Column("STATE", need=70),
    Column("PROGRESS"),
    Column("LOSS", right=True),
    Column("CURVE", need=76),
    Column("RAN", right=True, need=60),
    Column("LEFT", right=True, need=55),
    Column("NODE", flex=True, need=110),
)
QUEUED = (
    Column("#", right=True),
    Column("ID", right=True),
    Column("NAME", flex=True),
    Column("USER", flex=True, need=100),
    Column("PRIO", right=True, need=50),
    Column("WAITS", right=True, need=90),
    Column("MAY START", right=True, need=80),
    Column("WHY", flex=True, keep=30),
)
FINISHED = (
    Column("ID", right=True),
    Column("NAME", flex=True),
    Column("USER", flex=True, need=100),
    Column("STATE"),
    Column("LOSS", right=True, need=55),
    Column("CURVE", need=76),
    Column("RAN", right=True, need=60),
    Column("ENDED", right=True, need=90),
    Column("WHY", flex=True),
)
_WIDE = 100  # columns: room for longer bars and curves
_FIXED_LINES = 17  # header, titles, column heads, "and more" and gaps


def frame(data: FrameData, now: datetime, width: int, height: int | None = None) -> "RenderableType":
    """The whole view for a terminal of this size; without a height nothing is left out."""
    from rich.console import Group
    from rich.text import Text

    room = _share_out(data, height)
    parts: list[RenderableType] = [_header(data, now), Text("")]
    parts += _section("Nodes", node_view.COLUMNS, _node_rows(data["nodes"], width), width, len(data["nodes"]))
    sections = (
        ("Running", RUNNING, [_running(job, width) for job in data["running"]], "running"),
        ("Queue", QUEUED, _queue(data, now), "queued"),
        ("Finished", FINISHED, [_finished(job, now, width) for job in data["finished"]], "finished"),
    )
    for title, columns, rows, count in sections:
        if rows or count != "finished":
            parts += _section(title, columns, rows[: room[count]], width, data["counts"].get(count, len(rows)))
    return Group(*parts[:-1])


def _share_out(data: FrameData, height: int | None) -> dict[str, int]:
    """How many rows each section gets: running jobs first, a few of each in any case."""
    names = ("running", "queued", "finished")
    sizes: dict[str, int] = {
        "running": len(data["running"]),
        "queued": len(data["queued"]),
        "finished": len(data["finished"]),
    }
    if height is None:
        return sizes
    left = max(3, height - _FIXED_LINES - len(data["nodes"]))
    rooms = dict.fromkeys(names, 0)
    while left > 0 and any(rooms[name] < sizes[name] for name in names):
        for name in names:
            if rooms[name] < sizes[name] and left > 0:
                rooms[name] += 1
                left -= 1
    return rooms


def _header(data: FrameData, now: datetime) -> "RenderableType":
    from rich.text import Text

    counts = data["counts"]
    words = [f"{counts.get('running', 0)} running", f"{counts.get('queued', 0)} queued"]
    words += [
        f"{counts.get('finished', 0)} finished",
        f"policy {clean(data['policy'])}",
        f"{now.astimezone():%H:%M:%S}",
    ]
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


def _node_rows(nodes: Sequence[Json], width: int) -> list[Row]:
    return node_view.rows(nodes, bars=10 if width >= _WIDE else 0)


def _progress(job: Json, bars: int) -> Cell:
    share = share_done(job)
    if share is None:
        steps = steps_done(job)
        return Cell(f"step {steps}" if steps else "", "dim")
    return Cell(f"{bar(share, bars)} {share * 100:3.0f} %", "green")


def _running(job: Json, width: int) -> Row:
    return (
        Cell(str(job["id"]), "bold"),
        job["name"],
        job["user"],
        Cell(job["state"], STATE_STYLE.get(job["state"], "")),
        _progress(job, 12 if width >= _WIDE else 4),
        metric(job),
        curve(job, 16 if width >= _WIDE else 8),
        duration(job.get("run_seconds")) if job.get("started_at") else "",
        eta(job),
        nodes_of(job),
    )


def _queue(data: FrameData, now: datetime) -> list[Row]:
    """In the order of their places; those whose place is not known come last."""
    explained = data["explain"]
    by_place = sorted(
        data["queued"], key=lambda job: ((explained.get(job["id"]) or {}).get("position") or 10**9, job["id"])
    )
    return [_waiting(job, explained.get(job["id"]) or {}, now) for job in by_place]


def _waiting(job: Json, place: Json, now: datetime) -> Row:
    estimate: Any = place.get("estimate") or {}
    start = estimate.get("start_seconds")
    waits = ago(job.get("queued_at") or job.get("submitted_at"), now).removesuffix(" ago")
    return (
        str(place.get("position") or ""),
        Cell(str(job["id"]), "bold"),
        job["name"],
        job["user"],
        str(job["priority"]),
        waits,
        f"in {duration(start)}" if start is not None else "",
        Cell(str(place.get("text") or why(job)), "yellow"),
    )


def _finished(job: Json, now: datetime, width: int) -> Row:
    return (
        Cell(str(job["id"]), "bold"),
        job["name"],
        job["user"],
        Cell(job["state"], STATE_STYLE.get(job["state"], "")),
        metric(job),
        curve(job, 16 if width >= _WIDE else 8),
        duration(job.get("run_seconds")) if job.get("started_at") else "",
        ago(job.get("finished_at"), now),
        Cell(why(job), "red" if job["state"] == "failed" else "dim"),
    )
