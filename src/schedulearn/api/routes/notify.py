"""Notices: whom a user wants to be told of the ends of jobs, and what became of what was to be told."""

from typing import Annotated

from pydantic import Field

from schedulearn.api.body.fields import Strict
from schedulearn.api.body.kinds import AddressField
from schedulearn.api.common.deps import Gate, NameFilter, Person
from schedulearn.api.common.router import Router
from schedulearn.service.notify.subscriptions import MOST
from schedulearn.wire import types

router = Router(prefix="/notify", tags=["notify"])
Addresses = Annotated[list[AddressField], Field(max_length=MOST)]


class NotifyIn(Strict):
    addresses: Addresses
    user: NameFilter | None = Field(None, description="another user: administrators only")


@router.get("", responses={404: {}})
def show(caller: Person, gateway: Gate, user: NameFilter | None = None) -> types.Notify:
    """Whom the caller wants to be told, and the last notices. Of another user for administrators only."""
    return gateway.notify.view(caller, user)


@router.put("", responses={404: {}})
def change(wanted: NotifyIn, caller: Person, gateway: Gate) -> types.Notify:
    """Instead of the addresses before."""
    return gateway.notify.set(caller, wanted.user, wanted.addresses)


@router.get("/secret")
def secret(caller: Person, gateway: Gate) -> types.Secret:
    """With which the caller's webhooks are signed."""
    return types.Secret(secret=gateway.notify.secret(caller, new=False))


@router.post("/secret", status_code=201)
def new_secret(caller: Person, gateway: Gate) -> types.Secret:
    """Another one; the one before is not used any more."""
    return types.Secret(secret=gateway.notify.secret(caller, new=True))


@router.post("/test", status_code=202)
def test(caller: Person, gateway: Gate) -> types.Tested:
    """Tell all of the caller's addresses that this is a test."""
    return types.Tested(addresses=gateway.notify.test(caller))
