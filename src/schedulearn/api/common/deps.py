"""What routes are given: the gateway, and the caller."""

import secrets
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, TypeVar
from weakref import WeakKeyDictionary

from fastapi import Depends, Path, Query, Request
from fastapi.security import HTTPBearer
from fastapi.security.http import HTTPAuthorizationCredentials
from starlette.concurrency import run_in_threadpool

from schedulearn.api.body.fields import MAX_ID, OneLine
from schedulearn.api.http.concurrency import SLOT
from schedulearn.asgi import PAGE, TRUST
from schedulearn.service.common.auth import Caller, NoToken
from schedulearn.service.gateway.gateway import Gateway
from schedulearn.service.gateway.views import Actor, acting

T = TypeVar("T")
_LAST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
_bearer = HTTPBearer(auto_error=False, description="a token, as made by POST /api/v1/tokens")


async def gateway_of(request: Request) -> Gateway:
    gateway: Gateway = request.app.state.gateway
    return gateway


Gate = Annotated[Gateway, Depends(gateway_of)]


async def anonymous_of(gateway: Gate, request: Request) -> Actor:
    """The caller before it is known: an address alone."""
    actor = request.state.actor = Actor("", None, _origin(gateway, request), gateway.now())
    return actor


def _origin(gateway: Gateway, request: Request) -> str:
    """The address of the connection. That something was forwarded is marked; from where is only what the client says.

    The page of this process has a key of its own: it tells the address of the browser.
    """
    address = request.client.host if request.client else ""
    key, _, browser = request.headers.get(PAGE, "").partition(" ")
    is_page = secrets.compare_digest(key.encode(), gateway.page_key.encode())
    marks = [mark for mark, has in (("page", is_page), ("forwarded", "x-forwarded-for" in request.headers)) if has]
    return (browser if is_page else address) + (f" ({', '.join(marks)})" if marks else "")


Anonymous = Annotated[Actor, Depends(anonymous_of)]


async def caller_of(
    gateway: Gate,
    request: Request,
    actor: Anonymous,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Caller:
    """A caller with a valid token, jobs included. What the request does from here on is theirs, for the audit log."""
    if credentials is None:
        raise NoToken("a token is needed: Authorization: Bearer TOKEN")
    caller = gateway.auth.cached(credentials.credentials)
    if caller is None:  # only a token that was not seen just now costs a look into the store
        caller = await run_in_threadpool(gateway.auth.authenticate, credentials.credentials)
    name = f"job {caller.attempt}" if caller.attempt else caller.name
    actor = request.state.actor = replace(actor, name=name, id=caller.id or None)
    acting.set(actor)
    request.scope[SLOT].take(caller)
    if trust := request.scope.get(TRUST):
        trust()
    return caller


async def person_of(caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
    """A user or an administrator: the token of a job is good for its reports and groups alone."""
    caller.must_be_person()
    return caller


async def streaming_of(request: Request, _: Annotated[Caller, Depends(caller_of)]) -> Callable[[], None]:
    """To be called before an answer that may take long; it fails where the caller has too many of them."""
    stream: Callable[[], None] = request.scope[SLOT].stream
    return stream


AnyCaller = Annotated[Caller, Depends(caller_of)]
Person = Annotated[Caller, Depends(person_of)]
Streaming = Annotated[Callable[[], None], Depends(streaming_of)]
JobNumber = Annotated[int, Path(ge=1, le=MAX_ID, description="the job's id")]
Name = Annotated[str, Path(), OneLine(200, least=1)]
Offset = Annotated[int, Query(ge=0, le=MAX_ID, description="how many to leave out before the first")]
NameFilter = Annotated[str, OneLine(200)]
Moment = Annotated[datetime | None, Query(description="an ISO 8601 time")]


def seconds(at: datetime | None, otherwise: T) -> float | T:
    """Since the epoch; what cannot be written as a date again is moved to the nearest that can."""
    if at is None:
        return otherwise
    return min(max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()), _LAST)


def one_for_each_gateway(make: Callable[[Gateway], T]) -> Callable[[Gateway], T]:
    """What all requests to a service share."""
    made: WeakKeyDictionary[Gateway, T] = WeakKeyDictionary()

    def shared(gateway: Gateway) -> T:
        if gateway not in made:
            made[gateway] = make(gateway)
        return made[gateway]

    return shared
