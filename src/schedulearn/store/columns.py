"""How Python values lie in columns, the same way on both databases."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from enum import StrEnum
from functools import lru_cache
from typing import Any

from sqlalchemy import BigInteger, Dialect, Double, Enum, Integer, Text
from sqlalchemy.types import TypeDecorator

from schedulearn.core.domain.job import Accrual, Move, Placement
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.spec import Target, Workers

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
    """A JSON value as ASCII text: it needs no support by the database, and any string survives.

    With `make`, what is read is given to it: it makes the value that was written. Values that are made cannot be
    changed, so equal texts, of which there are many, are one value.
    """

    impl = Text
    cache_ok = True

    def __init__(self, make: Callable[[Any], Any] | None = None) -> None:
        super().__init__()
        self.make = make
        self._load = lru_cache(1000)(lambda text: make(json.loads(text))) if make else json.loads

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else _dump(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ARG002
        return None if value is None else self._load(value)


def _plain(value: Any) -> dict[str, Any]:
    """Of our own types, which JSON does not know; what a field has no value for is left out."""
    if isinstance(value, Mapping):
        return dict(value)
    return {name: each for name, each in asdict(value).items() if each not in (None, "")}


_dump = json.JSONEncoder(separators=(",", ":"), default=_plain).encode


def choice(kind: type[StrEnum]) -> Enum:
    """A member of an enumeration, by its value, in a column of text."""
    return Enum(kind, native_enum=False, length=16, values_callable=lambda members: [each.value for each in members])


def _outcome(plain: dict[str, Any]) -> Outcome:
    return Outcome(**{**plain, "ending": Ending(plain["ending"])})


def _move(plain: list[Any]) -> Move:
    since, source, to = plain
    return Move(since, tuple(source), tuple(Placement(node, tuple(devices)) for node, devices in to))


Several = Json(tuple)
Labels = Json(lambda plain: tuple(map(tuple, plain)))
Amounts = Json(Resources)
Accrued = Json(lambda plain: Accrual(*plain))
Outcomes = Json(_outcome)
Moves = Json(_move)
WorkerCounts = Json(lambda plain: Workers(**plain))
Targets = Json(lambda plain: Target(**plain))


class Measured(TypeDecorator[float]):
    """A value that a job reported. SQLite knows no nan, so nan is NULL on both databases."""

    impl = Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:  # noqa: ARG002
        return None if value is None or math.isnan(value) else value

    def process_result_value(self, value: float | None, dialect: Dialect) -> float:  # noqa: ARG002
        return math.nan if value is None else value
