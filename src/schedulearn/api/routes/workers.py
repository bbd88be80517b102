"""What the workers of a job tell, and where they find each other when their number changes; by the job's own token."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, ClassVar

from fastapi import Depends, Path, Request
from pydantic import AfterValidator, Field

from schedulearn.api.body.fields import MAX_ID, WHOLE, Line, Shaped, Strict, invalid
from schedulearn.api.common.answers import answer
from schedulearn.api.common.deps import AnyCaller, Gate
from schedulearn.api.common.router import Router
from schedulearn.core.domain.errors import InvalidSpec, NotAllowed
from schedulearn.core.domain.ids import AttemptId, WorkerId
from schedulearn.service.gateway.rendezvous import LONGEST_WAIT, Wait
from schedulearn.service.gateway.views import Point
from schedulearn.wire import types

router = Router(tags=["jobs"])
MOST_VALUES = 50_000  # of one report
Attempt = Annotated[str, Path(), Shaped(r"[0-9]{1,15}\.[0-9]{1,9}", "an attempt's id, such as 17.2")]
Worker = Annotated[str, Shaped(r"[0-9]{1,15}\.[0-9]{1,9}\.[0-9]{1,9}", "a worker's id, such as 17.2.0")]
Seconds = Annotated[float, Field(strict=True, ge=0, le=LONGEST_WAIT, description="how long the answer may take")]
Rank = Annotated[int, Field(strict=True, ge=0, le=1_000_000), WHOLE]
Key = Annotated[str, Field(min_length=1, max_length=300)]
GroupName = Annotated[str, Path(), Shaped(r"[0-9]{1,15}\.[0-9]{1,15}", "a group's id, such as 3.1")]


# --- progress


class ReportPoint(Strict):
    takes_nan: ClassVar[bool] = True  # a loss that has become nan is just what its owner must see

    seq: Annotated[int, Field(strict=True, ge=0, le=MAX_ID), WHOLE]
    at: Annotated[float, Field(strict=True, ge=0, le=1e11, allow_inf_nan=False)]
    step: Annotated[int, Field(strict=True, ge=0, le=MAX_ID), WHOLE]
    values: Annotated[dict[Line, Annotated[float, Field(strict=True)]], Field(max_length=100)]


def _not_too_many(points: list[ReportPoint]) -> list[ReportPoint]:
    values = sum(len(point.values) for point in points)
    if values > MOST_VALUES:
        raise invalid(f"they have {values} values", f"at most {MOST_VALUES} values in one report")
    return points


class Report(Strict):
    takes_nan: ClassVar[bool] = True

    worker: Worker
    points: Annotated[list[ReportPoint], Field(max_length=10_000), AfterValidator(_not_too_many)]

    def flat(self) -> list[Point]:
        return [Point(p.seq, p.at, p.step, name, value) for p in self.points for name, value in p.values.items()]


@router.post("/attempts/{attempt}/reports", responses={409: {}})
def report(attempt: Attempt, report: Report, caller: AnyCaller, gateway: Gate) -> types.Accepted:
    worker = WorkerId.parse(report.worker)
    taken = gateway.report(caller, AttemptId.parse(attempt), worker, report.flat())
    return types.Accepted(accepted=taken.new, dropped=taken.dropped)


# --- groups


async def _own_attempt(attempt: Attempt, caller: AnyCaller) -> AttemptId:
    own = AttemptId.parse(attempt)
    if caller.attempt != own:
        raise NotAllowed(f"only the token of attempt {own} may form its groups")
    return own


OwnAttempt = Annotated[AttemptId, Depends(_own_attempt)]


class Join(Strict):
    worker: Worker
    generation: Annotated[int, Field(strict=True, ge=0, le=MAX_ID, description="as the control file has it"), WHOLE]
    members: Annotated[list[Rank], Field(min_length=1, max_length=1_000, description="the same")]
    step: Annotated[int, Field(strict=True, ge=-1, le=MAX_ID, description="steps done; -1: it has no state"), WHOLE]
    wait: Seconds = LONGEST_WAIT


class SetKey(Strict):
    key: Key
    value: Annotated[str, Field(max_length=500_000)]


class GetKeys(Strict):
    keys: Annotated[list[Key], Field(min_length=1, max_length=1_000)]
    wait: Seconds = 0.0


class AddToKey(Strict):
    key: Key
    amount: Annotated[int, Field(strict=True, ge=-(2**31), le=2**31), WHOLE]


@router.post("/attempts/{attempt}/group", responses={409: {}})
async def join(attempt: OwnAttempt, asked: Join, gateway: Gate, request: Request) -> types.GroupAnswer:
    """Be let into the group of this generation. Answers when all of its members have asked, or time is up."""
    worker, members = WorkerId.parse(asked.worker), tuple(asked.members)
    if worker.of != attempt:
        raise InvalidSpec("worker", f"{worker} is not a worker of attempt {attempt}", f"{attempt}.0, …")
    if list(members) != sorted(set(members)):
        raise InvalidSpec("members", "they are not in order, or one is there twice", "ranks, ascending")
    async with _until_gone(request) as gone:
        wait = Wait(asked.wait, gone)
        found = await gateway.rendezvous.join(attempt, worker.rank, asked.generation, members, asked.step, wait)
    return answer(types.GroupAnswer, found)


@router.get("/attempts/{attempt}/group")
async def waiting(attempt: OwnAttempt, gateway: Gate) -> types.GroupWaiting:
    """The workers that wait to be let in."""
    generation, ranks = gateway.rendezvous.waiting(attempt)
    return types.GroupWaiting(generation=generation, waiting=list(ranks))


@router.delete("/attempts/{attempt}/group", status_code=204)
async def end(attempt: OwnAttempt, gateway: Gate) -> None:
    """The training has come to its end: every worker that waits, or asks from now on, is told so."""
    gateway.rendezvous.end(attempt)


@router.post("/attempts/{attempt}/groups/{group}/keys/set", status_code=204, responses={409: {}})
async def set_key(attempt: OwnAttempt, group: GroupName, asked: SetKey, gateway: Gate) -> None:
    """Leave a value for the other members."""
    gateway.rendezvous.put(attempt, group, asked.key, asked.value)


@router.post("/attempts/{attempt}/groups/{group}/keys/get", responses={409: {}})
async def get_keys(
    attempt: OwnAttempt, group: GroupName, asked: GetKeys, gateway: Gate, request: Request
) -> types.GroupValues:
    """The values that are there. Answers when all are, or time is up."""
    async with _until_gone(request) as gone:
        values = await gateway.rendezvous.get(attempt, group, asked.keys, Wait(asked.wait, gone))
    return types.GroupValues(values=dict(values))


@router.post("/attempts/{attempt}/groups/{group}/keys/add", responses={409: {}})
async def add_to_key(attempt: OwnAttempt, group: GroupName, asked: AddToKey, gateway: Gate) -> types.GroupTotal:
    """Count up, all members together."""
    return types.GroupTotal(value=gateway.rendezvous.add(attempt, group, asked.key, asked.amount))


@asynccontextmanager
async def _until_gone(request: Request) -> AsyncIterator[asyncio.Event]:
    """An event that is set when the client hangs up: a worker that was killed must not count as one that waits."""
    gone = asyncio.Event()

    async def listen() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone.set()

    task = asyncio.create_task(listen())
    try:
        yield gone
    finally:
        task.cancel()
