"""What FastAPI lets pass although the description does not: unknown parameters, loose values, keys given twice.

A parameter that is spelled wrongly would otherwise be left out without a word, and `1_0` or ` 1` be a number.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin
from weakref import WeakKeyDictionary

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from schedulearn.api.body.fields import DATE_TEXT, near_to
from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.units import short

# How a value is written in a path or a query: what it may look like, in words and as a regular expression.
_FORMS: dict[type, tuple[str, re.Pattern[str]]] = {
    bool: ("true or false", re.compile("true|false")),
    int: ("a whole number", re.compile("-?[0-9]{1,20}")),
    datetime: ("a time such as 2030-01-31T18:00:00Z", re.compile(DATE_TEXT)),
}


class _Parameter(NamedTuple):
    many: bool
    form: tuple[str, re.Pattern[str]] | None


_Known = tuple[dict[str, _Parameter], dict[str, _Parameter]]
_KNOWN: WeakKeyDictionary[Callable[..., Any], _Known] = WeakKeyDictionary()  # by what a route calls


async def well_formed(request: Request) -> None:
    """InvalidSpec, with what would be right, if the request is not as it is described."""
    route = request.scope.get("route")
    if not isinstance(route, APIRoute):
        return
    query, path = _known_of(route)
    for name, value in request.path_params.items():
        _check_form(name, value, path.get(name))
    for name, value in request.query_params.multi_items():
        if name not in query:
            hint, allowed = near_to(name, list(query))
            field = short(name, 100)[1:-1]
            raise InvalidSpec(field, f"there is no such parameter{hint}", allowed or "none: this takes no parameters")
        if not query[name].many and len(request.query_params.getlist(name)) > 1:
            raise InvalidSpec(name, "it is given more than once", "once")
        _check_form(name, value, query[name])
    if route.body_field is not None:
        _check_keys(await request.body())


def _check_form(name: str, value: object, known: _Parameter | None) -> None:
    if known and known.form and not known.form[1].fullmatch(str(value)):
        raise InvalidSpec(name, f"{short(value)} is not {known.form[0]}", known.form[0])


def _check_keys(body: bytes) -> None:
    """Of two values under one key each reader takes another: that is how checks are passed by."""
    try:
        json.loads(body, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return  # that it is no JSON is told elsewhere


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise InvalidSpec(short(twice, 100)[1:-1], "it is given more than once", "each field once")
    return found


def _known_of(route: APIRoute) -> _Known:
    """Found out once for each."""
    if (known := _KNOWN.get(route.endpoint)) is None:
        known = _KNOWN[route.endpoint] = _parameters(route)
    return known


def _parameters(route: APIRoute) -> _Known:
    """Of the query and of the path, by name."""
    parts = list(_flat(route.dependant))
    query = {field.alias: _parameter(field.field_info.annotation) for part in parts for field in part.query_params}
    path = {field.alias: _parameter(field.field_info.annotation) for part in parts for field in part.path_params}
    return query, path


def _flat(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for below in dependant.dependencies:
        yield from _flat(below)


def _parameter(annotation: Any) -> _Parameter:
    kinds = list(_kinds(annotation))
    many = any(get_origin(kind) is list for kind in kinds)
    return _Parameter(many, next((_FORMS[kind] for kind in kinds if kind in _FORMS), None))


def _kinds(annotation: Any) -> Iterator[Any]:
    """The types that a value may have; null is said by leaving the parameter out."""
    if get_origin(annotation) in (Union, UnionType):
        for one in get_args(annotation):
            yield from _kinds(one)
    elif get_origin(annotation) is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif annotation is not NoneType:
        yield annotation
