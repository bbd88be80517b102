"""Parameters of a stage, as a person writes them: read by the type that the stage declares for them."""

import math
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.units import parse_duration

Parse = Callable[[object, str], Any]  # (value, field) -> the value as the stage takes it
Seconds = Annotated[float, "seconds"]  # `10m`, `30s`, `600`

_YES_NO = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def parser_of(declared: Any) -> Parse:
    """What reads a parameter of this type; a value of another type is given as it is written."""
    if get_origin(declared) in (Union, UnionType):
        return _or_off([kind for kind in get_args(declared) if kind is not NoneType])
    if declared == Seconds:
        return parse_duration
    return _PARSERS.get(declared, _as_given)


def _or_off(kinds: list[Any]) -> Parse:
    """One of these (the first counts), or `off` for None."""
    parse = parser_of(kinds[0])
    return lambda value, field: None if value in ("off", None) else parse(value, field)


def _number(value: object, field: str) -> float:
    try:
        found = float(str(value))
    except ValueError:
        found = math.nan
    if math.isnan(found):
        raise InvalidSpec(field, f"{value!r} is not a number", "a number such as 0.5")
    return found


def _whole(value: object, field: str) -> int:
    try:
        return int(str(value))  # by way of text: neither 1.5 nor true is a whole number
    except ValueError:
        raise InvalidSpec(field, f"{value!r} is not a whole number", "a whole number such as 3") from None


def _yes_or_no(value: object, field: str) -> bool:
    try:
        return _YES_NO[str(value).lower()]
    except KeyError:
        raise InvalidSpec(field, f"{value!r} is neither true nor false", "true or false") from None


def _as_given(value: object, field: str) -> object:  # noqa: ARG001 - every parser is told the field
    return value


_PARSERS: dict[Any, Parse] = {float: _number, int: _whole, bool: _yes_or_no}
