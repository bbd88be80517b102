"""How people write sizes, durations and ranges, and how we write them back."""

import math
import re

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.wire.words import duration, size

_SIZE_UNITS = {
    "": 1, "B": 1,
    "K": 1000, "KB": 1000, "KI": 1024, "KIB": 1024,
    "M": 1000**2, "MB": 1000**2, "MI": 1024**2, "MIB": 1024**2,
    "G": 1000**3, "GB": 1000**3, "GI": 1024**3, "GIB": 1024**3,
    "T": 1000**4, "TB": 1000**4, "TI": 1024**4, "TIB": 1024**4,
}  # fmt: skip
_DURATION_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# The forms of texts, as regular expressions that mean the same in every dialect: the API publishes them.
_NUMBER = r"[0-9]{1,20}(?:\.[0-9]{1,20})?"
LONGEST_TEXT = 100  # characters; blanks may be read in many ways, and a million of them would take hours
SIZE_TEXT = rf" *{_NUMBER} *(?:[KMGTkmgt][Ii]?)?[Bb]? *"
DURATION_TEXT = rf" *(?:{_NUMBER}|(?:{_NUMBER} *[smhdSMHD] *){{1,4}}) *"
RANGE_TEXT = rf" *{_NUMBER} *(?:\.\. *{_NUMBER} *)?"
_SIZE = re.compile(SIZE_TEXT)
_SIZE_PARTS = re.compile(r"([0-9.]+) *([A-Za-z]*)")
_DURATION = re.compile(DURATION_TEXT)
_DURATION_PART = re.compile(rf"({_NUMBER}) *([smhd]?)")
_RANGE = re.compile(RANGE_TEXT)

format_duration, format_size = duration, size  # the core's names for them
SIZES_ALLOWED = "a number of bytes, or a text such as 512MB, 4GB or 1.5GiB"
DURATIONS_ALLOWED = "a number of seconds, or a text such as 30s, 90m, 6h or 1h30m"


def _fits(form: re.Pattern[str], text: str) -> bool:
    return len(text) <= LONGEST_TEXT and form.fullmatch(text) is not None


def parse_size(value: object, field: str) -> int:
    """Bytes from `4GB`, `512MiB` or a number."""
    if isinstance(value, str) and _fits(_SIZE, value):
        ((number, unit),) = _SIZE_PARTS.findall(value)
        return round(float(number) * _SIZE_UNITS[unit.upper()])
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
        return round(value)
    raise InvalidSpec(field, f"{short(value)} is not a size", SIZES_ALLOWED)


def parse_duration(value: object, field: str) -> float:
    """Seconds from `1h30m`, `90s` or a number."""
    if isinstance(value, str) and _fits(_DURATION, value):
        return sum(float(n) * _DURATION_UNITS[u or "s"] for n, u in _DURATION_PART.findall(value.lower()))
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
        return float(value)
    raise InvalidSpec(field, f"{short(value)} is not a duration", DURATIONS_ALLOWED)


def parse_range(value: object, field: str) -> tuple[float, float]:
    """`2`, `1..4` or `0.5..4` as (low, high)."""
    low: object = value
    high: object = value
    if isinstance(value, str):
        low, _, high = value.partition("..") if _fits(_RANGE, value) else ("", "", "")
        high = high or low
    try:
        numbers = float(low), float(high)  # type: ignore[arg-type] # a wrong type is answered below
    except (TypeError, ValueError):
        numbers = (math.nan, math.nan)
    if isinstance(value, bool) or not (0 <= numbers[0] <= numbers[1] < math.inf):
        raise InvalidSpec(field, f"{short(value)} is not a range", "a number such as 2, or a range such as 1..4")
    return numbers


def format_count(amount: float, thing: str) -> str:
    """`1 core`, `0.333 cores`, `12 GPUs`."""
    shown = f"{round(amount, 3):g}"
    return f"{shown} {thing}{'' if shown == '1' else 's'}"


def short(value: object, limit: int = 60) -> str:
    """A value as it may be shown in a message: never longer than `limit`."""
    text = repr(value) if not isinstance(value, str) or len(value) <= limit else repr(value[:limit])
    return text if len(text) <= limit + 2 else text[:limit] + "…"
