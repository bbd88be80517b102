"""From the text of one field to a value that can be trusted. What cannot be used raises `BadRow` and says why.

A duration of 0 is allowed: a job that ended at once is a job. A negative one is not.
"""

from datetime import UTC, datetime
from math import isfinite

MOST_GPUS = 100_000  # more is a slip of the keyboard, and would cost memory in every table of speed-ups

_MOST = 1e12  # of anything; as seconds some thirty thousand years
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - subtracted from times that carry no zone either
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)


class BadRow(ValueError):
    """What is wrong with one row."""


def number(field: str, text: str, most: float = _MOST) -> float:
    try:
        value = float(text)
    except ValueError:
        value = None
    if value is None or "_" in text:  # Python reads 1_000, no trace format does
        if not text.strip():
            raise BadRow(f"{field} is missing")
        raise BadRow(f"{field} is not a number: {shown(text)}")
    if not isfinite(value):
        raise BadRow(f"{field} must be finite, not {shown(text)}")
    if abs(value) > most:
        raise BadRow(f"{field} is beyond all measure: {shown(text)}")
    return value


def duration(field: str, text: str) -> float:
    value = number(field, text)
    if value < 0:
        raise BadRow(f"{field} must not be negative: {shown(text)}")
    return value


def positive(field: str, text: str) -> float:
    value = number(field, text)
    if value <= 0:
        raise BadRow(f"{field} must be above 0, not {shown(text)}")
    return value


def count(field: str, text: str, most: int = MOST_GPUS) -> int:
    """A whole number of at least 1; `4.0` is one too."""
    value = number(field, text, float("inf"))
    if value != int(value):
        raise BadRow(f"{field} must be a whole number, not {shown(text)}")
    if not 1 <= value <= most:
        raise BadRow(f"{field} must be 1 to {most}, not {shown(text)}")
    return int(value)


def timestamp(field: str, text: str) -> float:
    """ISO 8601, with a blank or a T in the middle, as seconds since 1970; without a zone it is UTC."""
    text = text.strip()
    if not text:
        raise BadRow(f"{field} is missing")
    if text[4:5] != "-":  # or Python would take 20171009 for a date, and so some plain number of seconds
        raise BadRow(f"{field} is not a date and time: {shown(text)}")
    try:
        when = datetime.fromisoformat(text)
        return (when - (_EPOCH if when.tzinfo is None else _EPOCH_UTC)).total_seconds()
    except (ValueError, OverflowError):
        raise BadRow(f"{field} is not a date and time: {shown(text)}") from None


def shown(value: object) -> str:
    """A value for a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
