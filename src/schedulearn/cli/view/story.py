"""What `describe` shows of a job: curves, events, attempts, and what it uses."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from schedulearn.cli.view.table import Cell, Column, styled
from schedulearn.wire.clean import clean
from schedulearn.wire.facts import worker_end
from schedulearn.wire.types import FINISHED
from schedulearn.wire.words import (
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


def event_columns(events: Sequence[Json], now: datetime) -> tuple[Column, ...]:
    first = instant(events[0]["at"]) if events else None
    return (
        Column("TIME", lambda event: Cell(clock(event["at"], now), "dim")),
        Column("AFTER", lambda event: Cell("+" + _between(first, instant(event["at"])), "dim"), right=True, need=70),
        Column("WHAT", lambda event: event["kind"].replace("_", " "), flex=True),
        Column("STATE", lambda event: styled(event.get("state") or ""), need=60),
        Column("CAUSE", lambda event: event.get("cause") or "", flex=True, wrap=True, keep=20),
    )


def attempt_columns(now: datetime) -> tuple[Column, ...]:
    """Of pairs: an attempt, and one of its workers."""
    return (
        Column("WORKER", lambda row: Cell(row[1]["worker"], "bold")),
        Column("NODE", lambda row: row[1]["node"], flex=True),
        Column("DEVICES", lambda row: ", ".join(row[1].get("devices") or ()), flex=True, need=90),
        Column("STARTED", lambda row: clock(row[1].get("started_at"), now), need=60),
        Column("RAN", lambda row: _ran(row[1], now), right=True),
        Column("ENDED", lambda row: Cell(*worker_end(*row)), flex=True, wrap=True, keep=20),
    )


def workers_of(attempts: Sequence[Json]) -> list[tuple[Json, Json]]:
    return [(attempt, worker) for attempt in attempts for worker in attempt.get("workers") or ()]


def _ran(worker: Json, now: datetime) -> str:
    return _between(instant(worker.get("started_at")), instant(worker.get("ended_at")) or now)


def _between(begin: datetime | None, end: datetime | None) -> str:
    return duration(max(0.0, (end - begin).total_seconds())) if begin and end else ""


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
