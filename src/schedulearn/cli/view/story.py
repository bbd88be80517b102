"""What `describe` shows of a job: facts, curves, events, attempts."""

import shlex
from collections.abc import Sequence
from datetime import datetime

from schedulearn.cli.view.table import Cell, Column, Row
from schedulearn.cli.view.terminal import clean
from schedulearn.cli.view.words import (
    STATE_STYLE,
    Json,
    ago,
    clock,
    duration,
    eta,
    instant,
    nodes_of,
    number,
    size,
    sparkline,
    steps_done,
)

_IN_BYTES = ("memory", "shm")  # resources that are counted so

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


def facts(job: Json, now: datetime) -> list[tuple[str, str]]:
    """Label and value; an empty value means there is nothing to say."""
    spec = job.get("spec") or {}
    return [
        ("user", clean(job["user"])),
        ("command", _command(spec)),
        ("image", clean(spec.get("image") or "")),
        ("folder", clean(spec.get("workdir") or "")),
        ("needs", needs(spec)),
        ("workers", f"{job['workers']} on {nodes_of(job)}" if job.get("placement") else ""),
        ("priority", str(job["priority"])),
        ("deadline", _moment(job.get("deadline"), now)),
        ("time limit", duration(job.get("time_limit"))),
        ("target", _target(job, now)),
        ("weight", _weight(job.get("weight"))),
        ("hint", clean(job.get("hint") or "")),
        ("speed-up", _speedup(job.get("speedup"))),
        ("depends on", ", ".join(str(i) for i in spec.get("depends_on") or ())),
        ("submitted", _moment(job.get("submitted_at"), now)),
        ("started", _moment(job.get("started_at"), now)),
        ("finished", _moment(job.get("finished_at"), now)),
        ("waited", duration(job.get("wait_seconds"))),
        ("ran", duration(job.get("run_seconds")) if job.get("started_at") else ""),
        ("checkpoint", _checkpoint(job, now)),
        ("interrupted", _interruptions(job)),
        ("moves to", clean(", ".join(job.get("moving_to") or ()))),
        ("ended", clean((job.get("exit") or {}).get("text") or "")),
    ]


def target_words(job: Json) -> str:
    """`loss ≤ 0.05, then stop`; empty without a target."""
    spec = job.get("spec") or {}
    target = spec.get("target")
    if not target:
        return ""
    bound = "≥" if (spec.get("metric") or {}).get("goal") == "max" else "≤"
    named = ", ".join(f"{name} {bound} {number(value)}" for name, value in target.items() if name != "then")
    return clean(f"{named}, then {target.get('then')}")


def _target(job: Json, now: datetime) -> str:
    """`loss ≤ 0.05, then yield; reached at 12:04 (3 min ago)`"""
    words, at = target_words(job), job.get("reached_at")
    return f"{words}; reached at {_moment(at, now)}" if words and at else words


def _command(spec: Json) -> str:
    command = spec.get("command") or ""
    return clean(command if isinstance(command, str) else shlex.join(command))


def _weight(weight: Json | None) -> str:
    """`8 h of GPU time, between 4 h and 16 h (jobs of the same name)`"""
    if weight is None:
        return ""
    low, high = duration(weight["low"]), duration(weight["high"])
    between = f", between {low} and {high}" if low != high else ""
    kind = weight["unit"].removesuffix("-seconds")
    return clean(f"{duration(weight['expected'])} of {kind} time{between} ({weight['source']})")


def _speedup(speedup: Json | None) -> str:
    """`1.7 with 2 workers, measured`"""
    if speedup is None:
        return ""
    source = "measured" if speedup["measured"] else "as of earlier jobs of its name"
    return f"{number(speedup['value'])} with {speedup['workers']} workers, {source}"


def _moment(text: str | None, now: datetime) -> str:
    return f"{clock(text, now)} ({ago(text, now)})" if text else ""


def _checkpoint(job: Json, now: datetime) -> str:
    at = job.get("checkpoint_at")
    return f"brought to the service {_moment(at, now)}" if at else ""


def _interruptions(job: Json) -> str:
    kinds = {"restarts": "restarted", "preemptions": "pre-empted", "migrations": "moved", "resizes": "resized"}
    counts = [f"{word} {job[key]}×" for key, word in kinds.items() if job.get(key)]
    if job.get("migration_seconds"):
        counts.append(f"{duration(job['migration_seconds'])} lost by moving")
    return ", ".join(counts)


def needs(spec: Json) -> str:
    """`1..4 workers, each with gpus 1, cpus 0.5..4, memory 4 GB`"""
    workers = spec.get("workers")
    if isinstance(workers, dict):
        low, high = workers.get("min", 1), workers.get("max", workers.get("want", 1))
        workers = low if low == high else f"{low}..{high}"
    resources = ", ".join(
        f"{k} {_amount(k, v)}" for k, v in (spec.get("resources") or {}).items() if v not in (None, 0, "")
    )
    if not workers:
        return clean(resources)
    if str(workers) == "1":
        return clean("1 worker" + (f" with {resources}" if resources else ""))
    return clean(f"{workers} workers" + (f", each with {resources}" if resources else ""))


def _amount(name: str, value: object) -> str:
    """As it was written, or `low..high` of a range that was taken apart; bytes in a unit that can be read."""
    if isinstance(value, dict):
        low, high = value.get("min"), value.get("max")
        return str(low) if low == high else f"{low}..{high}"
    if name in _IN_BYTES and isinstance(value, int | float):
        return size(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


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
    """The job's metric has a direction, so that one of its ends is the best; of others nobody knows which."""
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
                    _ended(attempt, worker),
                )
            )
    return rows


def _ended(attempt: Json, worker: Json) -> Cell:
    left, stop = worker.get("left_at"), attempt.get("stop")
    if not worker.get("ended_at"):
        return Cell("leaving" if left else "stopping" if stop else "still there", "green")
    text = (worker.get("exit") or {}).get("text") or ""
    if left:
        lost = left == worker["ended_at"]
        return Cell(f"{'lost' if lost else 'left'}, the others went on: {text}", "yellow" if lost else "")
    words = f"stopped ({str(stop).replace('_', ' ')}): {text}" if stop else text
    return Cell(words, "" if (worker.get("exit") or {}).get("code") == 0 or stop else "red")
