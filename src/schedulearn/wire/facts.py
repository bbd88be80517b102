"""A job in words: its facts as label and value, what it needs, how a worker ended."""

import shlex
from datetime import datetime

from schedulearn.wire.clean import clean
from schedulearn.wire.words import Json, ago, clock, duration, errors_in_words, nodes_of, number, size

_IN_BYTES = ("memory", "shm")  # resources that are counted so


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
        ("work", _weight(job.get("weight"))),
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
        ("moving to", clean(", ".join(job.get("moving_to") or ()))),
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
    """`8 h of GPU time, between 4 h and 16 h (steps); such estimates: half of …`"""
    if weight is None:
        return ""
    low, high = duration(weight["low"]), duration(weight["high"])
    between = f", between {low} and {high}" if low != high else ""
    kind = weight["unit"].removesuffix("-seconds")
    past = f"; such estimates: {errors_in_words(weight['errors'])}" if weight.get("errors") else ""
    return clean(f"{duration(weight['expected'])} of {kind} time{between} ({weight['source']}){past}")


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
    return f"copied to the service {_moment(at, now)}" if at else ""


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


def worker_end(attempt: Json, worker: Json) -> tuple[str, str]:
    """How it ended, and the style that it is shown in."""
    left, stop = worker.get("left_at"), attempt.get("stop")
    if not worker.get("ended_at"):
        return "leaving" if left else "stopping" if stop else "running", "green"
    text = (worker.get("exit") or {}).get("text") or ""
    if left:
        lost = left == worker["ended_at"]
        return f"{'lost' if lost else 'left'}, the others went on: {text}", "yellow" if lost else ""
    words = f"stopped ({str(stop).replace('_', ' ')}): {text}" if stop else text
    return words, "" if (worker.get("exit") or {}).get("code") == 0 or stop else "red"
