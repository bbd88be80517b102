"""What a job says of its own progress. Its own token is good for this alone."""

from typing import Annotated, ClassVar

from fastapi import Path
from pydantic import AfterValidator, Field

from schedulearn.api.body.fields import MAX_ID, WHOLE, Line, Shaped, Strict, invalid
from schedulearn.api.common.deps import AnyCaller, Gate
from schedulearn.api.common.router import Router
from schedulearn.core.domain.ids import AttemptId, WorkerId
from schedulearn.service.gateway.views import Point
from schedulearn.wire import types

router = Router(tags=["jobs"])
MOST_VALUES = 50_000  # of one report
Attempt = Annotated[str, Path(), Shaped(r"[0-9]{1,15}\.[0-9]{1,9}", "an attempt's id, such as 17.2")]
Worker = Annotated[str, Shaped(r"[0-9]{1,15}\.[0-9]{1,9}\.[0-9]{1,9}", "a worker's id, such as 17.2.0")]


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
