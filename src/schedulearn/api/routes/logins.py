"""Logging in to the page: a code, asked for with a token, that is good for one new token."""

from typing import Annotated

from pydantic import Field

from schedulearn.api.body.fields import Strict
from schedulearn.api.common.deps import Anonymous, Gate, Person
from schedulearn.api.common.router import Router
from schedulearn.api.routes.users import UserName
from schedulearn.wire import types

router = Router(tags=["users"])


class LoginIn(Strict):
    user: UserName | None = Field(None, description="for another user: administrators only")


class Redeem(Strict):
    code: Annotated[str, Field(min_length=1, max_length=200)]


@router.post("/logins", status_code=201, responses={404: {}})
def issue(login: LoginIn, caller: Person, gateway: Gate) -> types.Login:
    """A one-time code, good for twelve hours or until the service ends."""
    made = gateway.logins.issue(caller, login.user)
    gateway.audit.let_in(made["user"])
    return made


@router.post("/logins/redeem", status_code=201, responses={401: {}})
def redeem(code: Redeem, actor: Anonymous, gateway: Gate) -> types.NewToken:
    """A token for a code: once. Answers without a token; 401 if the code is not, or no longer, good."""
    made = gateway.logins.redeem(code.code)
    gateway.audit.logged_in(actor, made["user"])
    return made
