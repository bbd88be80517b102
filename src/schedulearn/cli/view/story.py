"""What `describe` shows of a job: curves, events, attempts, and what it uses."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from schedulearn.cli.view.table import Cell, Column, Row
from schedulearn.wire.clean import clean
from schedulearn.wire.facts import worker_end
from schedulearn.wire.words import (
    FINISHED,
    STATE_STYLE,
    Json,
    clock,
    duration,
    eta,
    instant,
    number,
    size,
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


# --- what it uses


def usage(job: Json, workers: Sequence[Json]) -> list[tuple[str, str]]:
    """Label and value, all workers together; what no machine could tell is left out."""
    if not workers:
        return []
    latest = [worker["latest"] for worker in workers]
    over = job["state"] in FINISHED
    lines = [
        ("cpu", "" if over else _cores(workers, latest)),
        ("cpu time", duration(_sum(latest, "cpu_seconds"))),
        ("memory", _memory(workers, latest, over)),
        ("disk", _pair(latest, "read_bytes", "read", "written_bytes", "written")),
        ("network", _pair(latest, "received_bytes", "received", "sent_bytes", "sent")),
        ("energy", _energy(_sum(latest, "energy"))),
    ]
    return [(label, value) for label, value in lines if value]


def _sum(looks: Iterable[Json], field: str) -> float | None:
    known = [look[field] for look in looks if look.get(field) is not None]
    return sum(known) if known else None


def _cores(workers: Sequence[Json], latest: Sequence[Json]) -> str:
    """`▃▅▇ 0.93 of 1.5 cores`"""
    used, limit = _sum(latest, "cpus"), _sum(latest, "cpus_limit")
    if used is None:
        return ""
    curve = sparkline([point["cpus"] for point in workers[0].get("points") or ()], 32)
    of = "" if limit is None else f" of {limit:g}"
    return f"{curve}  {used:.2f}{of} core{'' if limit == 1 else 's'}".strip()


def _memory(workers: Sequence[Json], latest: Sequence[Json], over: bool) -> str:
    now, most, limit = _sum(latest, "memory"), _sum(workers, "memory_peak"), _sum(latest, "memory_limit")
    if now is None or most is None:
        return ""
    of = "" if limit is None else f" of {size(limit)}"
    return f"{size(most)}{of} peak" if over else f"{size(now)}{of} (peak {size(most)})"


def _pair(latest: Sequence[Json], first: str, verb: str, second: str, other_verb: str) -> str:
    one, other = _sum(latest, first), _sum(latest, second)
    return "" if one is None or other is None else f"{size(one)} {verb}, {size(other)} {other_verb}"


def _energy(joules: float | None) -> str:
    if joules is None:
        return ""
    return f"{joules / 3.6e6:.3g} kWh" if joules >= 3.6e5 else f"{joules / 1e3:.3g} kJ"
