"""Errors as RFC 9457 problem details, made in one place for all routes."""

import logging
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from schedulearn.api.body import first_form
from schedulearn.api.http.concurrency import TooMany
from schedulearn.core.domain.errors import (
    Conflict,
    ImpossibleRequest,
    InvalidSpec,
    NotAllowed,
    NotFound,
    OverLimit,
    SchedulearnError,
    StoreAway,
    StoreError,
)
from schedulearn.core.domain.units import short
from schedulearn.service.common.auth import NotAuthenticated
from schedulearn.service.gateway.uploads import TooLarge

log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"
_MOST_ERRORS = 20
_RETRY_AFTER = "2"  # seconds
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

# For what pydantic finds most often.
_FOUND = {
    "is not true or false": ("bool_parsing", "bool_type"),
    "is not an object": ("dict_type", "model_attributes_type", "model_type"),
    "is not known": ("enum", "literal_error"),
    "is not a number": ("float_parsing", "float_type"),
    "is not a whole number": ("int_from_float", "int_parsing", "int_type"),
    "is too small": ("greater_than", "greater_than_equal"),
    "is too large": ("less_than", "less_than_equal"),
    "is not a list": ("list_type", "tuple_type"),
    "is not a text": ("string_type",),
    "is too long": ("string_too_long",),
    "is too short": ("string_too_short",),
    "has too many entries": ("too_long",),
    "has too few entries": ("too_short",),
}
_WORDS = {kind: words for words, kinds in _FOUND.items() for kind in kinds}

# The first that matches counts, so the more special come first.
_KINDS: tuple[tuple[type[SchedulearnError], int, str, str], ...] = (
    (ImpossibleRequest, 422, "impossible-request", "No node could ever run this"),
    (InvalidSpec, 422, "invalid-input", "The input is not valid"),
    (NotAuthenticated, 401, "not-authenticated", "A token is needed"),
    (NotAllowed, 403, "not-allowed", "You may not do this"),
    (NotFound, 404, "not-found", "There is no such thing"),
    (Conflict, 409, "conflict", "Not possible now"),
    (OverLimit, 429, "over-limit", "As much as one user may have"),
    (TooLarge, 413, "too-large", "Too large"),
    (TooMany, 429, "too-many", "Too much at once"),
    (StoreAway, 503, "store-away", "The database cannot be used at present"),
    (StoreError, 503, "store", "The database cannot be used"),
    (SchedulearnError, 500, "error", "Something went wrong"),
)


class Fault(BaseModel):
    field: str  # its dotted path; "": the body as a whole
    problem: str
    allowed: str


class Problem(BaseModel):
    """An error, as RFC 9457 has it. The last three say more where the input was wrong."""

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None
    allowed: str | None = None
    errors: list[Fault] | None = None


def problem(status: int, kind: str, title: str, detail: str, more: Mapping[str, Any] | None = None) -> JSONResponse:
    body = {"type": f"urn:schedulearn:problem:{kind}", "title": title, "status": status, "detail": detail}
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({**body, **(more or {})}, status, headers, MEDIA_TYPE)


def http_problem(status: int, detail: str = "") -> JSONResponse:
    title = HTTPStatus(status).phrase
    return problem(status, title.lower().replace(" ", "-"), title, detail or title)


def install(app: FastAPI) -> None:
    app.add_exception_handler(SchedulearnError, _ours)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _bug)


def _ours(_: Request, error: Exception) -> JSONResponse:
    return of_error(error)


def of_error(error: Exception) -> JSONResponse:
    """The answer for an error that was raised on purpose."""
    status, kind, title = next((s, k, t) for cls, s, k, t in _KINDS if isinstance(error, cls))
    if isinstance(error, InvalidSpec):
        return _invalid(kind, title, [{"field": error.field, "problem": error.problem, "allowed": error.allowed}])
    if isinstance(error, StoreAway):
        away = problem(status, kind, title, str(error))
        away.headers["Retry-After"] = _RETRY_AFTER
        return away
    if status >= 500:
        log.error("a request failed: %s", error, exc_info=error)
    more = {"allowed": error.allowed} if isinstance(error, OverLimit) else None
    return problem(status, kind, title, str(error), more)


def _validation(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    return _invalid("invalid-input", "The input is not valid", _faults(error.errors()))


def _invalid(kind: str, title: str, errors: list[dict[str, str]]) -> JSONResponse:
    first = errors[0]
    where = f"{first['field']}: " if first["field"] else ""
    allowed = f" (allowed: {first['allowed']})" if first["allowed"] else ""
    detail = where + first["problem"] + allowed
    return problem(422, kind, title, detail, {"field": first["field"], "allowed": first["allowed"], "errors": errors})


def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    detail = str(error.detail)
    if error.status_code == HTTPStatus.NOT_FOUND and request.url.path == first_form.PATH:
        detail = f"the first Schedulearn took jobs here; send them to POST /api/v1/jobs, as {first_form.present({})}"
    response = http_problem(error.status_code, detail)
    response.headers.update(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        response.headers["Allow"] = ", ".join(_allowed_methods(request))
    return response


def _allowed_methods(request: Request) -> list[str]:
    """All that this path has: each is a route of its own, and the first of them has answered."""
    routes = request.app.routes
    return [
        method
        for method in _METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]


def _gone(_: Request, __: Exception) -> JSONResponse:
    """The client went away in the middle of its body: this is not read."""
    return http_problem(400, "the request ended before its body did")


def _bug(_: Request, __: Exception) -> JSONResponse:
    # Starlette raises it again after the answer, so that the server logs it with its traceback.
    return http_problem(500, "an error of the service itself; its log says more")


# --- pydantic's errors in our words


def _faults(errors: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    faults: dict[tuple[str, str], dict[str, str]] = {}  # the parts of a union often say the same
    for error in errors:
        fault = _fault(error)
        faults.setdefault((fault["field"], fault["problem"]), fault)
        if len(faults) == _MOST_ERRORS:
            break
    return list(faults.values())


def _fault(error: Mapping[str, Any]) -> dict[str, str]:
    context = error.get("ctx") or {}
    place = [str(part) for part in error["loc"][1:]]  # the first says where it was: body, query, path or header
    if error["type"] == "json_invalid" or (not place and isinstance(error.get("input"), bytes)):
        allowed = "a JSON object, sent as Content-Type: application/json"
        return {"field": "", "problem": "the body is not JSON", "allowed": allowed}
    if error["type"] == "invalid":
        field = ".".join([*place, *([context["field"]] if context["field"] else [])])
        return {"field": field, "problem": context["problem"], "allowed": context["allowed"]}
    return {"field": ".".join(place), "problem": _problem(error), "allowed": _allowed(context)}


def _problem(error: Mapping[str, Any]) -> str:
    if error["type"] == "missing":
        return "it is missing"
    value = short(error.get("input"))
    if words := _WORDS.get(error["type"]):
        return f"{value} {words}"
    return f"{value}: {error['msg'].removeprefix('Value error, ')}"


def _allowed(context: Mapping[str, Any]) -> str:
    if "expected" in context:
        return str(context["expected"])
    words = {
        "ge": "at least {}",
        "gt": "more than {}",
        "le": "at most {}",
        "lt": "less than {}",
        "max_length": "at most {} long",
        "min_length": "at least {} long",
    }
    return ", ".join(text.format(context[name]) for name, text in words.items() if name in context)
