"""What routes are given: the gateway, and who is calling."""

from typing import Annotated

from fastapi import Depends, Path, Request
from fastapi.security import HTTPBearer
from fastapi.security.http import HTTPAuthorizationCredentials
from pydantic import AfterValidator, Field
from starlette.concurrency import run_in_threadpool

from schedulearn.api.fields import MAX_ID, one_line
from schedulearn.service.auth import Caller, NotAuthenticated
from schedulearn.service.gateway import Gateway

_bearer = HTTPBearer(auto_error=False, description="a token, as made by POST /api/v1/tokens")


async def gateway_of(request: Request) -> Gateway:
    gateway: Gateway = request.app.state.gateway
    return gateway


Gate = Annotated[Gateway, Depends(gateway_of)]


async def caller_of(
    gateway: Gate, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Caller:
    """Anybody with a valid token, jobs included."""
    if credentials is None:
        raise NotAuthenticated("a token is needed: Authorization: Bearer TOKEN")
    if known := gateway.auth.cached(credentials.credentials):
        return known
    # Only a token that was not seen just now costs a look into the store.
    return await run_in_threadpool(gateway.auth.authenticate, credentials.credentials)


async def person_of(caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
    """A user or an administrator: the token of a job is good for its reports and groups alone."""
    caller.must_be_person()
    return caller


AnyCaller = Annotated[Caller, Depends(caller_of)]
Person = Annotated[Caller, Depends(person_of)]
JobNumber = Annotated[int, Path(ge=1, le=MAX_ID, description="the job's id")]
Name = Annotated[str, Path(min_length=1, max_length=200), AfterValidator(one_line)]
NameFilter = Annotated[str, Field(max_length=200), AfterValidator(one_line)]
