"""The published description of the API: FastAPI's, with every status of every route, and how answers lead on."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI

from schedulearn.api.http.problems import MEDIA_TYPE, Fault, Problem

Json = dict[str, Any]
_SCHEMAS = "#/components/schemas/"
_IDENTITY = {"job": "id", "token": "id", "name": "name"}  # the field of an answer that a path wants
_MADE = ("201", "202")


def describe(app: FastAPI) -> None:
    """From now on `app.openapi()` is the whole description."""
    plain = app.openapi

    def openapi() -> Json:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(plain())
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign] # as FastAPI's own pages do it


def _completed(document: Json) -> Json:
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):  # FastAPI's own form of errors: ours is another
        schemas.pop(name, None)
    for model in (Fault, Problem):
        schema = model.model_json_schema(ref_template=_SCHEMAS + "{model}")
        schema.pop("$defs", None)
        schemas[model.__name__] = schema
    for path, _, operation in _operations(document):
        operation["responses"].pop("422", None)
        for parameter in operation.get("parameters", ()):
            _never_null(parameter["schema"])
        own = {int(status) for status in operation["responses"] if int(status) >= 400}
        for status in sorted({*own, *_statuses(path, operation)}):
            operation["responses"][str(status)] = _problem(status)
    _link(document)
    return document


def _operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def _never_null(schema: Json) -> None:
    """A parameter that is null is left out: there is no way to write it."""
    if "anyOf" in schema:
        rest = [one for one in schema["anyOf"] if one != {"type": "null"}]
        schema.pop("anyOf")
        schema.update(rest[0] if len(rest) == 1 else {"anyOf": rest})


def _statuses(path: str, operation: Json) -> Iterator[int]:
    """The errors that may happen to any request of this kind. A route itself declares those that are its own."""
    yield from (422, 429, 503)  # a parameter that there is not; too much at once; the database is away
    if operation.get("security"):
        yield from (401, 403)
    if "{" in path:
        yield 404
    if "requestBody" in operation:
        yield from (400, 408, 413)  # it cannot be read, does not come, is too large


def _problem(status: int) -> Json:
    return {
        "description": HTTPStatus(status).phrase,
        "content": {MEDIA_TYPE: {"schema": {"$ref": f"{_SCHEMAS}{Problem.__name__}"}}},
    }


def _link(document: Json) -> None:
    """What was made can be asked for, changed and removed: from each collection to the routes of its members."""
    for path, method, operation in _operations(document):
        collection, _, rest = path.rpartition("/{") if path.endswith("}") else path.partition("/{")
        name = path[len(collection) + 2 :].partition("}")[0]
        maker = document["paths"].get(collection, {}).get("post")
        if rest.count("{") or name not in _IDENTITY or maker is None:
            continue
        made = next(maker["responses"][status] for status in _MADE if status in maker["responses"])
        link = {
            "operationId": operation["operationId"],
            "parameters": {name: f"$response.body#/{_IDENTITY[name]}"},
        }
        made.setdefault("links", {})[f"{method} {path.removeprefix(collection)}"] = link
