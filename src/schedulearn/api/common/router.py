"""Routes whose answers are the types that clients know, each described and checked as such."""

from collections.abc import Callable
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import typing_extensions
from fastapi import APIRouter
from fastapi.datastructures import DefaultPlaceholder


class Router(APIRouter):
    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        declared = options.get("response_model")
        if isinstance(declared, DefaultPlaceholder):
            declared = endpoint.__annotations__.get("return")
        if is_typeddict(declared):
            options["response_model"] = published(declared)
        super().add_api_route(path, endpoint, **options)


@cache
def published(kind: Any) -> Any:
    """The same type as pydantic takes it: before Python 3.12 it knows the dictionaries of typing_extensions alone."""
    if is_typeddict(kind):
        fields = {name: published(hint) for name, hint in get_type_hints(kind, include_extras=True).items()}
        same = typing_extensions.TypedDict(kind.__name__, fields)  # type: ignore[misc] # its name is not written out
        same.__doc__ = kind.__doc__
        same.__module__ = kind.__module__
        return same
    origin, parts = get_origin(kind), get_args(kind)
    if not parts or origin is Literal or not any(map(_has_answers, parts)):
        return kind
    made = tuple(published(part) for part in parts)
    return reduce(or_, made) if origin in (Union, UnionType) else origin[made]


def _has_answers(kind: Any) -> bool:
    return is_typeddict(kind) or any(map(_has_answers, get_args(kind)))
