"""Notices: whom a user wants to be told of the ends of jobs, and what became of what was to be told."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from schedulearn.api.body.fields import Strict
from schedulearn.api.body.spec import AddressField, iso
from schedulearn.api.common.deps import Gate, NameFilter, Person
from schedulearn.service.gateway.views import Notice
from schedulearn.service.notify.subscriptions import MOST, NotifyView

router = APIRouter(prefix="/notify", tags=["notify"])
Addresses = Annotated[list[AddressField], Field(max_length=MOST)]


class NotifyIn(Strict):
    addresses: Addresses
    user: NameFilter | None = Field(None, description="somebody else: administrators only")


class NoticeOut(BaseModel):
    """Something that somebody was told, or will be."""

    id: str
    type: str
    text: str
    address: str
    created_at: str
    state: str  # waiting, sent, given up
    tries: int
    next_try_at: str | None
    problem: str


class NotifyOut(BaseModel):
    user: str
    addresses: list[str]  # told of the ends of all jobs of this user
    given: list[str]  # those that an administrator gave
    allowed: list[str]  # what anybody may use
    mail: bool  # whether e-mails can be sent
    notices: list[NoticeOut]  # the newest first


class SecretOut(BaseModel):
    secret: str


class TestOut(BaseModel):
    addresses: int


@router.get("", responses={404: {}})
def show(caller: Person, gateway: Gate, user: NameFilter | None = None) -> NotifyOut:
    """Whom the caller wants to be told, and the last notices. Of another user for administrators only."""
    return _out(gateway.notify.view(caller, user))


@router.put("", responses={404: {}})
def change(wanted: NotifyIn, caller: Person, gateway: Gate) -> NotifyOut:
    """Instead of the addresses before."""
    return _out(gateway.notify.set(caller, wanted.user, wanted.addresses))


@router.get("/secret")
def secret(caller: Person, gateway: Gate) -> SecretOut:
    """With which the caller's webhooks are signed."""
    return SecretOut(secret=gateway.notify.secret(caller, new=False))


@router.post("/secret", status_code=201)
def new_secret(caller: Person, gateway: Gate) -> SecretOut:
    """Another one; the one before is not used any more."""
    return SecretOut(secret=gateway.notify.secret(caller, new=True))


@router.post("/test", status_code=202)
def test(caller: Person, gateway: Gate) -> TestOut:
    """Tell all of the caller's addresses that this is a test."""
    return TestOut(addresses=gateway.notify.test(caller))


def _out(view: NotifyView) -> NotifyOut:
    return NotifyOut(
        user=view.user,
        addresses=list(view.addresses),
        given=list(view.given),
        allowed=list(view.rules),
        mail=view.mail,
        notices=[_notice(notice) for notice in view.notices],
    )


def _notice(notice: Notice) -> NoticeOut:
    return NoticeOut(
        id=notice.content["id"],
        type=notice.content["type"],
        text=notice.content["text"],
        address=notice.address,
        created_at=iso(notice.created_at),
        state=notice.state,
        tries=notice.tries,
        next_try_at=iso(notice.due_at) if notice.state == "waiting" else None,
        problem=notice.problem,
    )
