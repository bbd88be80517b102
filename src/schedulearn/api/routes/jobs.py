"""Jobs: submit, list, show, change, stop, forget."""

import hashlib
import json
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Depends, Header, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import Field

from schedulearn.api.body.fields import (
    MOST_CURVES,
    WHOLE,
    Shaped,
    Strict,
)
from schedulearn.api.body.spec import JobChanges, JobIn, spec_out
from schedulearn.api.common.answers import attempt_out, explanation_out, job_out, series_out, usage_out
from schedulearn.api.common.deps import Gate, JobNumber, NameFilter, Offset, Person, Streaming, seconds
from schedulearn.api.common.router import Router, published
from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.states import FINISHED, JobState
from schedulearn.service.common.auth import Caller
from schedulearn.service.gateway.gateway import Gateway
from schedulearn.service.gateway.views import JobRow
from schedulearn.wire import types

router = Router(tags=["jobs"])

_GROUPS = {"active": frozenset(JobState) - FINISHED, "finished": FINISHED}
StateFilter = Literal[
    "queued", "starting", "running", "paused", "stopping", "succeeded", "failed", "cancelled", "active", "finished"
]
_Key = Annotated[str, Shaped("[!-~]{1,200}", "1 to 200 visible ASCII characters")]
IdempotencyKey = Annotated[
    _Key | None,
    Header(alias="Idempotency-Key", description="at most 200 ASCII characters, the same for the same request"),
]
RunPath = Annotated[
    str,
    Query(max_length=4096, json_schema_extra={"pattern": "^(?:[^/\\u0000][^\\u0000]*)?$"}, description="inside of it"),
]


class MigrateTo(Strict):
    node: NameFilter


class Exec(Strict):
    """A command and its arguments, as they are: no shell takes part."""

    command: Annotated[list[str], Field(min_length=1, max_length=10_000)]
    worker: Annotated[int, Field(strict=True, ge=0, le=100_000), WHOLE] = 0


async def _sent(request: Request) -> Callable[[], str]:
    """What tells whether two requests ask for the same: the SHA-256 of the body, however it was written."""
    body = await request.body()  # read already, and remembered

    def digest() -> str:
        try:
            plain = json.dumps(json.loads(body), sort_keys=True, separators=(",", ":")).encode()
        except (ValueError, RecursionError):
            plain = body
        return hashlib.sha256(plain).hexdigest()

    return digest


@router.post(
    "/jobs", status_code=201, response_model=types.Job, responses={200: {"model": published(types.Checked)}, 409: {}}
)
def submit(
    job: JobIn,
    caller: Person,
    gateway: Gate,
    response: Response,
    digest: Annotated[Callable[[], str], Depends(_sent)],
    dry_run: bool = False,
    idempotency_key: IdempotencyKey = None,
) -> Any:
    """Submit a job. With `dry_run` it is only checked, and its spec is answered with every default filled in.

    With `Idempotency-Key`, the same request once more (its answer was lost, say) makes no second job: the first one is
    the answer again, as it is now. 422 if the key came with another body before, 409 if that job has been deleted.
    Keys are the caller's own, and remembered for two days.
    """
    now, key = gateway.now(), idempotency_key or ""
    sent = digest() if key else ""
    if key and not dry_run and (known := gateway.submitted(caller, key, sent)):
        return _made(known, caller, gateway, response)
    spec = job.to_domain(now, caller.max_priority)
    if dry_run:
        gateway.check(caller, spec)
        return JSONResponse(types.Checked(valid=True, spec=spec_out(spec, private=True)))
    return _made(gateway.submit(caller, spec, key, sent), caller, gateway, response)


def _made(row: JobRow, caller: Caller, gateway: Gateway, response: Response) -> types.Job:
    response.headers["Location"] = f"/api/v1/jobs/{row.job.id}"
    return job_out(row, caller, gateway.now(), gateway.advice(row))


@router.get("/jobs")
def list_jobs(
    caller: Person,
    gateway: Gate,
    state: Annotated[
        list[StateFilter] | None, Query(description="states, or active or finished; several add up")
    ] = None,
    user: NameFilter | None = None,
    name: NameFilter | None = None,
    search: Annotated[NameFilter | None, Query(description="in names, whatever the case")] = None,
    sort: Literal["id", "priority", "submitted_at", "finished_at", "name", "user", "state"] = "id",
    order: Literal["asc", "desc"] = "asc",
    limit: Annotated[int, Query(ge=0, le=10_000)] = 100,
    offset: Offset = 0,
) -> types.JobPage:
    """One page. Where specs are very long it ends before `limit`: go on behind what was answered, up to `total`."""
    states = _states(state) if state else None
    rows, total = gateway.jobs(states, user, name, sort, order == "desc", limit, offset, search)
    now = gateway.now()
    return types.JobPage(jobs=[job_out(row, caller, now) for row in rows], total=total)


def _states(names: list[StateFilter]) -> set[JobState]:
    wanted: set[JobState] = set()
    for name in names:
        wanted |= _GROUPS.get(name) or {JobState(name)}
    return wanted


@router.get("/jobs/{job}")
def show(job: JobNumber, caller: Person, gateway: Gate) -> types.Job:
    row = gateway.job(JobId(job))
    return job_out(row, caller, gateway.now(), gateway.advice(row))


@router.patch("/jobs/{job}", responses={409: {}})
def update(job: JobNumber, changes: JobChanges, caller: Person, gateway: Gate) -> types.Job:
    """Change the priority, the deadline, the limits, the number of workers or the target of a job that is not finished.

    `cpus_limit` holds at once, for each of its workers, and in later attempts. A number of workers is what is wanted
    now: of a job with a range the smallest number stays, so that it goes on if a worker is lost. A job with more or
    fewer workers than is asked for is resized at once; if that cannot be, nothing changes, and 409 says why. Whether a
    new target is reached is found out anew.
    """
    now = gateway.now()
    return job_out(gateway.update(caller, JobId(job), changes.to_fields(now)), caller, now)


@router.delete("/jobs/{job}", status_code=202, responses={409: {}})
def delete(job: JobNumber, caller: Person, gateway: Gate) -> types.Job:
    """Stop it at once if it runs, then forget it and its files. It may still be seen until that is done."""
    return job_out(gateway.delete(caller, JobId(job)), caller, gateway.now())


@router.post("/jobs/{job}/cancel", status_code=202, responses={409: {}})
def cancel(job: JobNumber, caller: Person, gateway: Gate) -> types.Job:
    """End it. It is kept, as cancelled."""
    return job_out(gateway.cancel(caller, JobId(job)), caller, gateway.now())


@router.post("/jobs/{job}/pause", status_code=202, responses={409: {}})
def pause(job: JobNumber, caller: Person, gateway: Gate) -> types.Job:
    """Suspend a running job, or hold a queued one back."""
    return job_out(gateway.pause(caller, JobId(job)), caller, gateway.now())


@router.post("/jobs/{job}/resume", status_code=202, responses={409: {}})
def resume(job: JobNumber, caller: Person, gateway: Gate) -> types.Job:
    return job_out(gateway.resume(caller, JobId(job)), caller, gateway.now())


@router.post("/jobs/{job}/migrate", status_code=202, responses={409: {}})
def migrate(job: JobNumber, target: MigrateTo, caller: Person, gateway: Gate) -> types.Job:
    """Move a running job to another node: it saves, stops, and goes on there."""
    return job_out(gateway.migrate(caller, JobId(job), NodeName(target.node)), caller, gateway.now())


@router.get("/jobs/{job}/migrate", responses={409: {}})
def possible_moves(job: JobNumber, gateway: Gate) -> types.MovePage:
    """The nodes to which a running job could move now, and why not to the others: what a POST would say.

    What does not fit at present is refused, not waited for. 409 if the job is not running.
    """
    found = gateway.possible_moves(JobId(job))
    return types.MovePage(moves=[types.PossibleMove(node=one.node, problem=one.problem or None) for one in found])


@router.get("/jobs/{job}/explain")
def explain(job: JobNumber, gateway: Gate) -> types.Explanation:
    """Why it waits, its place in the queue, and when it will probably start."""
    return explanation_out(*gateway.explain(JobId(job)))


@router.get("/jobs/{job}/attempts")
def attempts(
    job: JobNumber, gateway: Gate, limit: Annotated[int, Query(ge=0, le=1000)] = 100, offset: Offset = 0
) -> types.AttemptPage:
    """Every attempt with its workers, the first one first."""
    found, total = gateway.attempts(JobId(job), limit, offset)
    return types.AttemptPage(attempts=[attempt_out(attempt) for attempt in found], total=total)


@router.get("/jobs/{job}/metrics")
def metrics(
    job: JobNumber,
    gateway: Gate,
    name: NameFilter | None = None,
    max_points: Annotated[int, Query(ge=1, le=2000)] = 500,
    limit: Annotated[int, Query(ge=0, le=MOST_CURVES, description="curves in one answer")] = 100,
    offset: Offset = 0,
) -> types.SeriesPage:
    """The curves of its metrics, by name, thinned to `max_points`.

    An answer has at most 50,000 points: of many curves there are fewer of each.
    """
    curves, total = gateway.curves(JobId(job), name, max_points, limit, offset)
    return types.SeriesPage(series=[series_out(curve) for curve in curves], total=total)


@router.get("/jobs/{job}/usage")
def usage(
    job: JobNumber,
    gateway: Gate,
    attempt: Annotated[int | None, Query(ge=1, le=2**31)] = None,
    since: Annotated[datetime | None, Query(description="an ISO 8601 time; earlier points are left out")] = None,
    max_points: Annotated[int, Query(ge=1, le=2000)] = 500,
    limit: Annotated[int, Query(ge=0, le=MOST_CURVES, description="workers in one answer")] = 100,
    offset: Offset = 0,
) -> types.UsagePage:
    """CPU, memory, disk and network traffic, energy and limits over time; of the newest attempt unless one is named.

    An answer has at most 50,000 points: of many workers there are fewer of each.
    """
    found, workers, total = gateway.usage(JobId(job), attempt, seconds(since, None), max_points, limit, offset)
    return types.UsagePage(attempt=str(found), workers=[usage_out(worker) for worker in workers], total=total)


@router.get(
    "/jobs/{job}/files",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-tar": {}}}, 409: {}},
)
async def files(
    job: JobNumber, caller: Person, gateway: Gate, streaming: Streaming, path: RunPath = ""
) -> StreamingResponse:
    """The run folder, or one path in it, as a tar stream; of a job in a container as it is there now."""
    streaming()
    return StreamingResponse(await gateway.commands.files(caller, JobId(job), path), media_type="application/x-tar")


@router.post(
    "/jobs/{job}/exec",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/octet-stream": {}}}, 409: {}},
)
async def exec_beside(
    job: JobNumber, asked: Exec, caller: Person, gateway: Gate, streaming: Streaming
) -> StreamingResponse:
    """Run a command beside a worker: as its user, in its run folder, with its environment and limits.

    The answer is a stream of frames: a byte for the kind (0 nothing, 1 standard output, 2 standard error, 3 the exit
    code in digits, 4 what went wrong, as JSON), four bytes for the length, big-endian, and the content. 3 or 4 is the
    last. To hang up before that ends the command.
    """
    streaming()
    frames = await gateway.commands.run(caller, JobId(job), asked.worker, asked.command)
    return StreamingResponse(frames, media_type="application/octet-stream")


@router.get("/schema/job", tags=["service"])
def schema() -> dict[str, Any]:
    """JSON Schema of the job spec."""
    return JobIn.model_json_schema()
