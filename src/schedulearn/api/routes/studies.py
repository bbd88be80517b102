"""Comparisons of policies, which run beside the service, and reports of experiments."""

from typing import Annotated

from fastapi import Path, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from schedulearn.api.body.fields import Line, OneLine, Shaped, Strict
from schedulearn.api.common.answers import answer
from schedulearn.api.common.deps import Gate, Person
from schedulearn.api.common.router import Router
from schedulearn.service.common.auth import Caller
from schedulearn.service.studies.studies import MOST_TRACE, NAME, Study, Wanted
from schedulearn.wire import types

router = Router(tags=["studies"])
StudyName = Annotated[str, Path(description="the study's name"), Shaped(NAME, "1 to 100 of A-Z, a-z, 0-9, ., _ and -")]
# Whoever opens it as a page of its own gets nothing but text, drawings and their style.
_HARMLESS = {
    "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:",
    "X-Content-Type-Options": "nosniff",
}


class ComparisonIn(Strict):
    policies: Annotated[list[Line], Field(min_length=1, max_length=50)]
    trace: Annotated[str, Field(max_length=MOST_TRACE)] | None = None
    trace_name: Annotated[str, OneLine(100)] = ""
    cluster: Annotated[str, OneLine(20)] = ""
    now: bool = False


@router.get("/studies")
def studies(caller: Person, gateway: Gate) -> types.StudyPage:
    """The newest first."""
    return types.StudyPage(studies=[_out(study, caller) for study in gateway.studies.all()])


@router.post("/studies", status_code=202, responses={409: {}})
def compare(wanted: ComparisonIn, caller: Person, gateway: Gate) -> types.Study:
    """Replay the service's own history, or a trace, under several policies; or predict (`now`) when the jobs there
    are would end under each. One at a time for each user."""
    asked = Wanted(wanted.policies, wanted.trace, wanted.trace_name, wanted.cluster, wanted.now)
    return _out(gateway.studies.compare(caller, asked), caller)


@router.get("/history", response_class=StreamingResponse, responses={200: {"content": {"application/x-ndjson": {}}}})
def history(
    gateway: Gate, limit: Annotated[int, Query(ge=1, le=100_000, description="of the newest")] = 2_000
) -> StreamingResponse:
    """The finished jobs that have run, in the order of submission, as a workload for `simulate` and `compare`.

    JSON lines; docs/simulator.md says what is in them.
    """
    return StreamingResponse(gateway.studies.history(limit), media_type="application/x-ndjson")


@router.get("/studies/{name}")
def study(name: StudyName, caller: Person, gateway: Gate) -> types.Study:
    return _out(gateway.studies.find(name), caller)


@router.get("/studies/{name}/report", response_class=Response, responses={200: {"content": {"text/html": {}}}})
def report(name: StudyName, gateway: Gate) -> Response:
    """The report as HTML, with all it needs in it."""
    return Response(gateway.studies.report(name), media_type="text/html", headers=_HARMLESS)


@router.post("/studies/{name}/cancel", status_code=202, responses={409: {}})
def cancel(name: StudyName, caller: Person, gateway: Gate) -> types.Study:
    """End a comparison that runs. Who asked for it, and administrators."""
    return _out(gateway.studies.cancel(caller, name), caller)


@router.delete("/studies/{name}", status_code=204)
def delete(name: StudyName, caller: Person, gateway: Gate) -> Response:
    """Remove it with its report. Who asked for it, and administrators."""
    gateway.studies.delete(caller, name)
    return Response(status_code=204)


def _out(study: Study, caller: Caller) -> types.Study:
    return answer(types.Study, study, yours=caller.owns(study.owner))
