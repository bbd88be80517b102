"""What the real application says of its routes, held against what a stand-in is asked and answers."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import jsonschema_rs

from schedulearn.api.app import create_app

_PREFIX = "/api/v1"
_BROKEN = 500  # whatever was asked
_JSON = ("application/json", "application/problem+json")


class Exchange(NamedTuple):
    """One request and its answer; `path` without the API's prefix, bodies as JSON says them, or bytes."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    body: Any
    status: int
    answer: Any


class Contract:
    def __init__(self) -> None:
        nobody: Any = None
        self._told = create_app(nobody).openapi()
        for schema in self._told["components"]["schemas"].values():
            if "properties" in schema:  # what it does not name is not answered
                schema.setdefault("additionalProperties", False)
        self._routes = {_pattern(path): route for path, route in self._told["paths"].items()}
        self._check = cache(self._checker)

    def problems(self, one: Exchange) -> Iterator[str]:
        """Why the application would not be asked so, or would not answer so."""
        where = f"{one.method} {one.path}"
        route = next((known for pattern, known in self._routes.items() if pattern.fullmatch(_PREFIX + one.path)), {})
        told = route.get(one.method.lower())
        if told is None:
            yield f"{where}: there is no such route"
            return
        known = {parameter["name"] for parameter in told.get("parameters", ()) if parameter["in"] == "query"}
        yield from (f"{where}: it takes no {name!r} in its query" for name in one.query if name not in known)
        if one.status < 400:
            yield from self._wrong(f"{where}: its body", told.get("requestBody"), one.body)
        if one.status == _BROKEN:
            return
        if str(one.status) not in told["responses"]:
            yield f"{where}: it does not answer {one.status}, but {', '.join(sorted(told['responses']))}"
        elif one.method != "HEAD":
            yield from self._wrong(f"{where}: its answer {one.status}", told["responses"][str(one.status)], one.answer)

    def _wrong(self, what: str, told: Mapping[str, Any] | None, value: Any) -> Iterator[str]:
        if told is None:
            if value not in (None, b""):
                yield f"{what}: it takes none"
            return
        schema = next((kind["schema"] for name, kind in told.get("content", {}).items() if name in _JSON), None)
        if schema is not None and not isinstance(value, bytes):
            for error in self._check(json.dumps(schema)).iter_errors(value):
                yield f"{what}: {'.'.join(map(str, error.instance_path))}: {error.message}"

    def _checker(self, schema: str) -> Any:
        return jsonschema_rs.validator_for({**json.loads(schema), "components": self._told["components"]})


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\{\w+(\\:path)?\\}", "[^/]+", re.escape(path)))
