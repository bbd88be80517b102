"""Users and their tokens."""

from typing import Annotated, Literal, cast

from fastapi import Path
from pydantic import Field

from schedulearn.api.body.fields import MAX_ID, WHOLE, OneLine, Priority, Shaped, Strict
from schedulearn.api.common.answers import answer, user_out
from schedulearn.api.common.deps import Gate, Name, Person
from schedulearn.api.common.router import Router
from schedulearn.service.common.identity import FIRST_PERSON, LARGEST
from schedulearn.service.gateway.views import UserChanges, UserRow
from schedulearn.wire import types

router = Router(tags=["users"])
Role = Literal["admin", "user"]
Id = Annotated[int, Field(strict=True, ge=FIRST_PERSON, le=LARGEST), WHOLE]
UserName = Annotated[
    str,
    Shaped(
        "[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}", "1 to 64 of A-Z, a-z, 0-9, _, ., @ and -; first a letter, a digit or _"
    ),
]


class UserUpdate(Strict):
    """Fields that are left out stay as they are."""

    role: Role = "user"
    uid: Id | None = Field(
        None, description="an account of the machine that jobs run as; null: one of the service's own"
    )
    gid: Id | None = None
    root: Annotated[bool, Field(strict=True, description="whether plain processes run as root")] = False
    max_priority: Priority | None = None

    def changes(self) -> UserChanges:
        return cast(UserChanges, self.model_dump(exclude_unset=True, exclude={"root"}))

    @property
    def asks_root(self) -> bool | None:
        return self.root if "root" in self.model_fields_set else None


class UserIn(UserUpdate):
    name: UserName


class TokenIn(Strict):
    label: Annotated[str, OneLine(200)] = ""
    user: UserName | None = Field(None, description="for another user: administrators only")


@router.get("/whoami")
def whoami(caller: Person, gateway: Gate) -> types.User:
    user = gateway.accounts.whoami(caller)
    return user_out(user, gateway.accounts.runs_as(user))


@router.get("/users")
def users(caller: Person, gateway: Gate) -> types.UserPage:
    accounts = gateway.accounts
    return types.UserPage(users=[user_out(user, accounts.runs_as(user)) for user in accounts.users(caller)])


@router.post("/users", status_code=201, responses={409: {}})
def add_user(user: UserIn, caller: Person, gateway: Gate) -> types.NewUser:
    made = gateway.accounts.add_user(
        caller, user.name, user.role, user.uid, user.gid, user.max_priority, root=user.root
    )
    return _with_notes(made, gateway)


@router.patch("/users/{name}", responses={409: {}})
def update_user(name: Name, update: UserUpdate, caller: Person, gateway: Gate) -> types.NewUser:
    return _with_notes(gateway.accounts.update_user(caller, name, update.asks_root, **update.changes()), gateway)


def _with_notes(user: UserRow, gateway: Gate) -> types.NewUser:
    return {**user_out(user, gateway.accounts.runs_as(user)), "notes": gateway.accounts.notes(user)}


@router.delete("/users/{name}", status_code=204, responses={409: {}})
def remove_user(name: Name, caller: Person, gateway: Gate) -> None:
    """With all their tokens. Their finished jobs stay."""
    gateway.accounts.remove_user(caller, name)


@router.get("/tokens")
def tokens(caller: Person, gateway: Gate) -> types.TokenPage:
    """The caller's own; an administrator sees those of all users."""
    return types.TokenPage(tokens=[answer(types.Token, row) for row in gateway.accounts.tokens(caller)])


@router.post("/tokens", status_code=201, responses={404: {}})
def add_token(token: TokenIn, caller: Person, gateway: Gate) -> types.NewToken:
    """The token is shown this once: only its hash is kept."""
    return gateway.accounts.add_token(caller, token.user, token.label)


@router.delete("/tokens/{token}", status_code=204)
def revoke_token(token: Annotated[int, Path(ge=1, le=MAX_ID)], caller: Person, gateway: Gate) -> None:
    gateway.accounts.revoke_token(caller, token)
