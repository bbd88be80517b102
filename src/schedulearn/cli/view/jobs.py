"""The table of jobs that `ls` shows."""

from collections.abc import Mapping, Sequence

from schedulearn.cli.view.table import Cell, Column, Row
from schedulearn.wire.words import (
    STATE_STYLE,
    Json,
    duration,
    eta,
    metric,
    nodes_of,
    sparkline,
    steps_done,
    why,
)

COLUMNS = (
    Column("ID", right=True),
    Column("NAME", flex=True),
    Column("USER", need=90),
    Column("STATE"),
    Column("PRIO", right=True, need=100),
    Column("NODE", flex=True, need=120),
    Column("WAITED", right=True, need=130),
    Column("RAN", right=True, need=50),
    Column("STEP", right=True, need=75),
    Column("LOSS", right=True, need=70),
    Column("CURVE", need=72),
    Column("ETA", right=True, need=85),
    Column("WHY", flex=True, keep=20),
)
_WIDE = 100  # columns: room for a longer curve


def state(job: Json) -> Cell:
    return Cell(job["state"], STATE_STYLE.get(job["state"], ""))


def curve(job: Json, width: int = 12) -> Cell:
    return Cell(sparkline((job.get("progress") or {}).get("spark") or (), width), "cyan")


def row(job: Json, reason: str, curve_width: int) -> Row:
    """One job, in the order of COLUMNS."""
    return (
        Cell(str(job["id"]), "bold"),
        job["name"],
        job["user"],
        state(job),
        str(job["priority"]),
        nodes_of(job),
        duration(job.get("wait_seconds")),
        duration(job.get("run_seconds")) if job.get("started_at") else "",
        steps_done(job),
        metric(job),
        curve(job, curve_width),
        eta(job),
        Cell(reason or why(job), "red" if job["state"] == "failed" else "dim"),
    )


def rows(jobs: Sequence[Json], reasons: Mapping[int, str], width: int) -> list[Row]:
    """With reasons, by id, for those who wait; on a terminal of this width."""
    return [row(job, reasons.get(job["id"], ""), 12 if width >= _WIDE else 8) for job in jobs]
