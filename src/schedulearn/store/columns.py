"""How Python values lie in columns, the same way on both databases."""

import json
import math
from typing import Any

from sqlalchemy import BigInteger, Dialect, Double, Integer, Text
from sqlalchemy.types import TypeDecorator

_MOST = 2**63 - 1

# SQLite numbers rows by itself only in a column that is called INTEGER; its integers have 64 bits anyway.
Big = BigInteger().with_variant(Integer(), "sqlite")


def clamp(number: int) -> int:
    """Into 64 bits: a silly number from outside must not break the row it is in."""
    return max(-_MOST, min(_MOST, number))


class Time(TypeDecorator[float]):
    """Seconds in Python, integer microseconds in the table."""

    impl = Big
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> int | None:  # noqa: ARG002
        if value is None:
            return None
        if not math.isfinite(value):
            return _MOST if value > 0 else -_MOST
        return clamp(round(value * 1_000_000))

    def process_result_value(self, value: int | None, dialect: Dialect) -> float | None:  # noqa: ARG002
        return None if value is None else value / 1_000_000


class Words(TypeDecorator[str]):
    """Text from anywhere. What a database would refuse (NUL, halves of surrogate pairs) is replaced."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        if value is None or (value.isascii() and "\0" not in value):
            return value
        return value.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")


class Json(TypeDecorator[Any]):
    """A JSON value as ASCII text: it needs no support by the database, and any string survives."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else json.dumps(value, separators=(",", ":"))

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ARG002
        return None if value is None else json.loads(value)


class Measured(TypeDecorator[float]):
    """A value that a job reported. SQLite knows no nan, so nan is NULL on both databases."""

    impl = Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:  # noqa: ARG002
        return None if value is None or math.isnan(value) else value

    def process_result_value(self, value: float | None, dialect: Dialect) -> float:  # noqa: ARG002
        return math.nan if value is None else value
