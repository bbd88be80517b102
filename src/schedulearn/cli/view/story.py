"""What `describe` shows of a job: facts, curves, events, attempts."""

from collections.abc import Sequence
from datetime import datetime

from schedulearn.cli.view.table import Cell, Column, Row
from schedulearn.wire.clean import clean
from schedulearn.wire.facts import worker_end
from schedulearn.wire.words import (
    STATE_STYLE,
    Json,
    clock,
    duration,
    eta,
    instant,
    number,
    sparkline,
    steps_done,
)

Columns = Sequence[Column]
Rows = Sequence[Row]

EVENT_COLUMNS: Columns = (
    Column("TIME"),
    Column("AFTER", right=True, need=70),
    Column("WHAT", flex=True),
    Column("STATE", need=60),
    Column("CAUSE", flex=True, wrap=True, keep=20),
)
ATTEMPT_COLUMNS: Columns = (
    Column("WORKER"),
    Column("NODE", flex=True),
    Column("DEVICES", flex=True, need=90),
    Column("STARTED", need=60),
    Column("RAN", right=True),
    Column("ENDED", flex=True, wrap=True, keep=20),
)


def curves(job: Json, series: Sequence[Json]) -> list[tuple[str, str]]:
    """Each metric in one line: its curve, first to last value, best."""
    lines: list[tuple[str, str]] = []
    if steps_done(job):
        left = eta(job)
        lines.append(("step", steps_done(job) + (f", about {left} left" if left else "")))
    for one in series:
        values = [point[1] for point in one.get("points") or ()]
        if one.get("last") is None:
            continue
        lines.append((clean(one["name"]), f"{sparkline(values, 32)}  now {number(one['last'])}  ({_range(job, one)})"))
    return lines


def _range(job: Json, series: Json) -> str:
    """The job's metric has a direction, so that one of its ends is the best; of others it is not known which."""
    metric = (job.get("spec") or {}).get("metric") or {}
    low, high = number(series.get("min")), number(series.get("max"))
    if series["name"] != metric.get("name", "loss"):
        return f"lowest {low}, highest {high}"
    return f"best {high}, lowest {low}" if metric.get("goal") == "max" else f"best {low}, highest {high}"


def event_rows(events: Sequence[Json], now: datetime) -> Rows:
    first = instant(events[0]["at"]) if events else None
    rows: list[Row] = []
    for event in events:
        at = instant(event["at"])
        after = (at - first).total_seconds() if at and first else None
        state = event.get("state") or ""
        rows.append(
            (
                Cell(clock(event["at"], now), "dim"),
                Cell("+" + duration(max(0.0, after)) if after is not None else "", "dim"),
                event["kind"].replace("_", " "),
                Cell(state, STATE_STYLE.get(state, "")),
                event.get("cause") or "",
            )
        )
    return rows


def attempt_rows(attempts: Sequence[Json], now: datetime) -> Rows:
    rows: list[Row] = []
    for attempt in attempts:
        for worker in attempt.get("workers") or ():
            begin, end = instant(worker.get("started_at")), instant(worker.get("ended_at"))
            ran = ((end or now) - begin).total_seconds() if begin else None
            rows.append(
                (
                    Cell(worker["worker"], "bold"),
                    worker["node"],
                    ", ".join(worker.get("devices") or ()),
                    clock(worker.get("started_at"), now),
                    duration(None if ran is None else max(0.0, ran)),
                    Cell(*worker_end(attempt, worker)),
                )
            )
    return rows
