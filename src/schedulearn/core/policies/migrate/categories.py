"""How a job's training is judged by SpeCon: it progresses, is being watched, or has converged.

A record is what is remembered of one job between decisions: plain JSON, and never changed, only replaced.
"""

import math
from collections.abc import Mapping
from typing import Any

from schedulearn.core.domain.job import Job
from schedulearn.core.policies.notes import Note
from schedulearn.core.policies.stages import Facts

Record = Mapping[str, Any]

PROGRESSING, WATCHING, CONVERGED = "PC", "WC", "CC"
GROWING = (PROGRESSING, WATCHING)
_NEXT = {PROGRESSING: WATCHING, WATCHING: CONVERGED, CONVERGED: CONVERGED}


def new_record(job: Job, now: float, interval: float, facts: Facts) -> Record:
    """Of a job that is seen for the first time."""
    value = facts.metric(job, now)
    return {
        "category": PROGRESSING,
        "due": now + interval,  # when to look again
        "read": now,  # when its metric was last looked for, with success
        "value": value,  # the metric then; None: it has said nothing yet
        "low": value,  # the least and the most that was read
        "high": value,
        "growth": None,  # over the last interval; None: there was no whole one yet
        "settled": None,  # when it converged or was marked: what it still has to do began then
        "asks": False,  # to be moved
        "marked": False,  # it was moved, or found to be well where it is: its growth is not looked at any more
        "rebalanced": False,
    }


def growth(record: Record, value: float) -> float:
    """By how much of the range seen so far the metric has changed: neither scale nor zero of it matter."""
    span = _high(record, value) - _low(record, value)
    return abs(value - record["value"]) / span if span > 0 else 0.0


def slows(grown: float, before: float | None, alpha: float) -> bool:
    """Whether it changed by little, and by less than the time before. A change of nothing at all cannot get less."""
    return grown < alpha and before is not None and (grown < before or grown == before == 0)


def category_after(category: str, grown: float, before: float | None, alpha: float) -> str:
    """A step on while it slows; back to the start when it changes much again; else it stays as it was."""
    if grown >= alpha:
        return PROGRESSING
    return _NEXT[category] if slows(grown, before, alpha) else category


def looked_at(record: Record, job: Job, now: float, interval: float, alpha: float, facts: Facts) -> Record:
    """The record after another interval. Silence changes nothing but when to look again."""
    value = facts.metric(job, now, record["read"])
    if value is None or not math.isfinite(value):
        return {**record, "due": now + interval}
    seen = {"due": now + interval, "read": now, "value": value}
    if record["value"] is None:
        return {**record, **seen, "low": value, "high": value}
    grown = growth(record, value)
    category = category_after(record["category"], grown, record["growth"], alpha)
    slower = slows(grown, record["growth"], alpha)
    return {
        **record,
        **seen,
        "low": _low(record, value),
        "high": _high(record, value),
        "growth": grown,
        "category": category,
        "settled": (record["settled"] or now) if category == CONVERGED else None,
        "asks": record["category"] == CONVERGED and slower,
    }


def category_note(job: Job, before: Record, after: Record, alpha: float) -> Note | None:
    """What is to be written down if its category has changed."""
    if before["category"] == after["category"]:
        return None
    was = "nothing" if before["growth"] is None else f"{before['growth']:.4g}"
    words = (
        f"{before['category']} → {after['category']}: its metric changed by {after['growth']:.4g} of its range, "
        f"by {was} the time before; the threshold is {alpha:g}"
    )
    numbers = {
        "from": before["category"],
        "to": after["category"],
        "growth": after["growth"],
        "growth_before": before["growth"],
        "alpha": alpha,
        **{key: after[key] for key in ("value", "low", "high")},
        "value_before": before["value"],
    }
    return Note("category", words, job.id, data=numbers)


def _low(record: Record, value: float) -> float:
    return min(float(record["low"]), value)


def _high(record: Record, value: float) -> float:
    return max(float(record["high"]), value)
