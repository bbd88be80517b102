"""Tables of jobs: the one that `ls` shows, and those of the live view; and one job in a line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from schedulearn.cli.view.table import Cell, Column, Row, rows_of, styled
from schedulearn.wire.clean import clean
from schedulearn.wire.words import (
    Json,
    ago,
    bar,
    duration,
    eta,
    metric,
    nodes_of,
    share_done,
    sparkline,
    steps_done,
    why,
)

_WIDE = 100  # columns: room for longer bars and curves


@dataclass(frozen=True, slots=True)
class Shown:
    """A job as a table shows it: on a terminal of this width, with its place in the queue if that is known."""

    job: Json
    width: int
    now: datetime
    place: Json

    @property
    def wide(self) -> bool:
        return self.width >= _WIDE


def curve(job: Json, width: int) -> Cell:
    return Cell(sparkline((job.get("progress") or {}).get("spark") or (), width), "cyan")


def _ran(row: Shown) -> str:
    return duration(row.job.get("run_seconds")) if row.job.get("started_at") else ""


def _progress(row: Shown) -> Cell:
    share, steps = share_done(row.job), steps_done(row.job)
    if share is None:
        return Cell(f"step {steps}" if steps else "", "dim")
    return Cell(f"{bar(share, 12 if row.wide else 4)} {share * 100:3.0f} %", "green")


def _waits(row: Shown) -> str:
    return ago(row.job.get("queued_at") or row.job.get("submitted_at"), row.now).removesuffix(" ago")


def _may_start(row: Shown) -> str:
    start = (row.place.get("estimate") or {}).get("start_seconds")
    return f"in {duration(start)}" if start is not None else ""


def _why(row: Shown) -> Cell:
    return Cell(str(row.place.get("text") or why(row.job)), "red" if row.job["state"] == "failed" else "dim")


def _of(title: str, cell: Any, **more: Any) -> Column:
    """A column of what is in the job itself."""
    return Column(title, lambda row: cell(row.job), **more)


def _user(need: int, flex: bool = True) -> Column:
    return _of("USER", lambda job: job["user"], flex=flex, need=need)


def _state(need: int = 0) -> Column:
    return _of("STATE", lambda job: styled(job["state"]), need=need)


def _loss(need: int = 0) -> Column:
    return _of("LOSS", metric, right=True, need=need)


def _curve(need: int, lengths: tuple[int, int]) -> Column:
    """With its length on a wide terminal, and on others."""
    return Column("CURVE", lambda row: curve(row.job, lengths[0] if row.wide else lengths[1]), need=need)


_ID = _of("ID", lambda job: Cell(str(job["id"]), "bold"), right=True)
_NAME = _of("NAME", lambda job: job["name"], flex=True)
_LONG, _SHORT = (16, 8), (12, 8)

JOBS = (
    _ID,
    _NAME,
    _user(90, flex=False),
    _state(),
    _of("PRIO", lambda job: str(job["priority"]), right=True, need=100),
    _of("NODE", nodes_of, flex=True, need=120),
    _of("WAITED", lambda job: duration(job.get("wait_seconds")), right=True, need=130),
    Column("RAN", _ran, right=True, need=50),
    _of("STEP", steps_done, right=True, need=75),
    _loss(70),
    _curve(72, _SHORT),
    _of("ETA", eta, right=True, need=85),
    Column("WHY", _why, flex=True, keep=20),
)
RUNNING = (
    _ID,
    _NAME,
    _user(100),
    _state(70),
    Column("PROGRESS", _progress),
    _loss(),
    _curve(76, _LONG),
    Column("RAN", _ran, right=True, need=60),
    _of("LEFT", eta, right=True, need=55),
    _of("NODE", nodes_of, flex=True, need=110),
)
QUEUED = (
    Column("#", lambda row: str(row.place.get("position") or ""), right=True),
    _ID,
    _NAME,
    _user(100),
    _of("PRIO", lambda job: str(job["priority"]), right=True, need=50),
    Column("WAITS", _waits, right=True, need=90),
    Column("MAY START", _may_start, right=True, need=80),
    Column("WHY", lambda row: Cell(_why(row).text, "yellow"), flex=True, keep=30),
)
FINISHED = (
    _ID,
    _NAME,
    _user(100),
    _state(),
    _loss(55),
    _curve(76, _LONG),
    Column("RAN", _ran, right=True, need=60),
    Column("ENDED", lambda row: ago(row.job.get("finished_at"), row.now), right=True, need=90),
    Column("WHY", _why, flex=True),
)


def rows(
    columns: Sequence[Column], jobs: Sequence[Json], places: Mapping[int, Json], width: int, now: datetime
) -> list[Row]:
    """The jobs in these columns; `places` has the reason, and perhaps the place, of each that waits."""
    return rows_of(columns, [Shown(job, width, now, places.get(job["id"]) or {}) for job in jobs])


def status_line(job: Json, place: Json | None = None) -> str:
    """`job 17 mnist · running 2 min · ━━━━────── 42 % · loss 0.31 ▇▅▃▁ · about 3 min left`"""
    parts = [f"job {job['id']} {clean(job['name'])}"]
    if job["state"] == "queued":
        position = (place or {}).get("position")
        parts.append(f"queued, place {position}" if position else "queued")
        parts.append(clean((place or {}).get("text") or why(job)))
    elif job["state"] == "running":
        parts += ["running " + duration(job.get("run_seconds")), *_how_far(job)]
    else:
        parts += [job["state"], why(job)]
    return " · ".join(part for part in parts if part)


def _how_far(job: Json) -> list[str]:
    share = share_done(job)
    steps = steps_done(job)
    done = f"{bar(share)} {share * 100:.0f} %" if share is not None else f"step {steps}" if steps else ""
    curve = sparkline((job.get("progress") or {}).get("spark") or (), 12)
    left = eta(job)
    return [done, f"{metric(job, named=True)} {curve}".strip(), f"about {left} left" if left else ""]
