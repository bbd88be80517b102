"""Numbers, times and states as a person reads them."""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, get_args

from schedulearn.wire.clean import clean
from schedulearn.wire.types import FINISHED, JobState

Json = Mapping[str, Any]

STATES: tuple[JobState, ...] = get_args(JobState)
WITH_WORKERS: tuple[JobState, ...] = ("starting", "running", "paused", "stopping")
STATE_STYLE = {
    "queued": "yellow", "starting": "cyan", "running": "green", "paused": "magenta", "stopping": "yellow",
    "succeeded": "green", "failed": "red", "cancelled": "dim",
    "up": "green", "draining": "yellow", "lost": "red", "removing": "yellow",
}  # fmt: skip
_DECADE = 10.0
_MOST_LISTED = 5  # values of one parameter
_BLOCKS = "▁▂▃▄▅▆▇█"


def parameters(params: Json) -> str:
    """`alpha=0.1, growing=full`; of a long list only how it begins."""
    return ", ".join(f"{clean(key)}={_parameter(value)}" for key, value in params.items())


def _parameter(value: Any) -> str:
    if isinstance(value, list) and len(value) > _MOST_LISTED:
        first = ", ".join(str(number) for number in value[:_MOST_LISTED])
        return f"[{first}, … {len(value):,} in all]"
    return clean(value if isinstance(value, str) else json.dumps(value))


def duration(seconds: float | None) -> str:
    """`45 s`, `12 min`, `3 h 20 min`, `2 d 4 h`: two units at the most."""
    if seconds is None:
        return ""
    if seconds < 0:
        return "-" + duration(-seconds)
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    days, rest = divmod(round(seconds), 86400)
    parts = [(days, "d"), (rest // 3600, "h"), (rest // 60 % 60, "min"), (rest % 60, "s")]
    while parts[0][0] == 0:
        parts.pop(0)
    if parts[0][1] == "min" and parts[0][0] >= 10:
        parts = parts[:1]
    return " ".join(f"{n} {unit}" for n, unit in parts[:2] if n)


def size(count: float | None) -> str:
    """`2 GB`, `1.5 MB`: at most three digits that say something."""
    if count is None:
        return ""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"


def errors_in_words(errors: Json) -> str:
    """How far off estimates of one source were, beside what earlier jobs alone would have told."""
    off, without = (f"{100 * errors[key]:.0f} %" for key in ("error", "without"))
    doubt = "" if errors["believed"] else "; not believed until it does better"
    return f"half of the last {errors['count']:,} off by more than {off} (jobs like them: {without}){doubt}"


def number(value: float | None) -> str:
    """A metric in at most four digits that say something."""
    if value is None:
        return ""
    return f"{value:.4g}"


def instant(text: str | None) -> datetime | None:
    """An ISO 8601 time of the API."""
    if not text:
        return None
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def iso(at: float) -> str:
    """A time as the API writes it."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def clock(text: str | None, now: datetime) -> str:
    """`14:03:12` for today, else with the date; in the reader's time zone."""
    at = instant(text)
    if at is None:
        return ""
    local, today = at.astimezone(), now.astimezone()
    return f"{local:%H:%M:%S}" if local.date() == today.date() else f"{local:%Y-%m-%d %H:%M}"


def ago(text: str | None, now: datetime) -> str:
    at = instant(text)
    if at is None:
        return ""
    seconds = (now - at).total_seconds()
    return f"in {duration(-seconds)}" if seconds < 0 else f"{duration(seconds)} ago"


def sparkline(values: Sequence[float], width: int = 16) -> str:
    """A curve in one line of text, its last point at the right.

    One that spans more than a decade is drawn by its logarithm: a loss falls fast at first, and then slowly.
    """
    finite = [v for v in values if isinstance(v, int | float) and abs(v) != float("inf") and v == v]
    if not finite:
        return ""
    if len(finite) > width:
        finite = [finite[round(i * (len(finite) - 1) / (width - 1))] for i in range(width)]
    if min(finite) > 0 and max(finite) / min(finite) > _DECADE:
        finite = [math.log(v) for v in finite]
    low, high = min(finite), max(finite)
    span = (high - low) or 1.0
    return "".join(_BLOCKS[min(7, int((v - low) / span * 8))] for v in finite)


def bar(share: float, width: int = 10) -> str:
    """`━━━━──────`"""
    full = round(max(0.0, min(1.0, share)) * width)
    return "━" * full + "─" * (width - full)


def share_done(job: Json) -> float | None:
    """How much of a job is done, 0..1, if its total is known."""
    progress = job.get("progress") or {}
    steps, step = progress.get("steps"), progress.get("step")
    if not steps or step is None:
        return None
    return max(0.0, min(1.0, float(step) / float(steps)))


def steps_done(job: Json) -> str:
    """`120/1000`, or `120` if the total is not known."""
    progress = job.get("progress") or {}
    step, steps = progress.get("step"), progress.get("steps")
    if step is None:
        return ""
    return f"{step:g}/{steps:g}" if steps else f"{step:g}"


def metric(job: Json, named: bool = False) -> str:
    """`0.31`, or `loss 0.31`."""
    progress = job.get("progress") or {}
    value = number(progress.get("value"))
    return f"{progress.get('metric') or 'loss'} {value}" if named and value else value


def why(job: Json) -> str:
    """How it ended, or why it is as it is."""
    if job["state"] == "succeeded":
        return ""
    if job["state"] in FINISHED:
        end = (job.get("exit") or {}).get("text") or ""
        reason = job.get("reason") or ""
        return clean(end if not reason or reason in end else reason if end in reason or not end else f"{reason}: {end}")
    return clean(job.get("reason") or "")


def nodes_of(job: Json) -> str:
    """Where it runs: `gpu1`, or `gpu1 ×2, gpu2`."""
    counts: dict[str, int] = {}
    for worker in job.get("placement") or ():
        counts[worker["node"]] = counts.get(worker["node"], 0) + 1
    return ", ".join(f"{clean(n)} ×{k}" if k > 1 else clean(n) for n, k in counts.items())


def eta(job: Json) -> str:
    seconds = (job.get("progress") or {}).get("eta_seconds")
    return duration(seconds) if seconds is not None and job["state"] not in FINISHED else ""
