"""The audit log: who did what to whose things, for administrators."""

from typing import Annotated

from fastapi import Query

from schedulearn.api.body.fields import MAX_ID
from schedulearn.api.common.answers import answer
from schedulearn.api.common.deps import Gate, Moment, NameFilter, Person, seconds
from schedulearn.api.common.router import Router
from schedulearn.service.gateway.views import AuditFilter
from schedulearn.wire import types

router = Router(tags=["service"])


@router.get("/audit")
def entries(
    caller: Person,
    gateway: Gate,
    actor: Annotated[NameFilter | None, Query(description="who did it, by name")] = None,
    action: Annotated[NameFilter | None, Query(description="such as job.cancel; job for all that begin so")] = None,
    object: Annotated[NameFilter | None, Query(description="such as job 17, user ann, node gpu1, policy")] = None,
    owner: Annotated[NameFilter | None, Query(description="whose it is, by name")] = None,
    since: Moment = None,
    until: Moment = None,
    before: Annotated[int | None, Query(ge=0, le=MAX_ID, description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> types.AuditPage:
    """What was done to jobs, users, tokens, nodes and policy, and what was refused; the newest first."""
    wanted = AuditFilter(actor, action, object, owner, seconds(since, None), seconds(until, None), before)
    found = gateway.audit.entries(caller, wanted, limit)
    more = found[-1].serial if len(found) == limit else None
    return types.AuditPage(entries=[answer(types.AuditEntry, entry) for entry in found], next=more)
