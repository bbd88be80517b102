"""Jobs: submit, list, show, change, stop, forget."""

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from schedulearn.api.convert import attempt_out, explanation_out, job_out, series_out
from schedulearn.api.deps import Gate, JobNumber, NameFilter, Person
from schedulearn.api.fields import MAX_ID, Cores, Deadline, Duration, Priority, Strict, deadline_at
from schedulearn.api.schemas import AttemptPage, DryRun, ExplanationOut, JobOut, JobPage, MetricsOut, MoveOut, MovePage
from schedulearn.api.spec import JobIn, TargetField, WorkersField, WorkersIn, spec_out
from schedulearn.domain.ids import JobId, NodeName
from schedulearn.domain.states import FINISHED, JobState

router = APIRouter(tags=["jobs"])

_GROUPS = {"active": frozenset(JobState) - FINISHED, "finished": FINISHED}
StateFilter = Literal[
    "queued", "starting", "running", "paused", "stopping", "succeeded", "failed", "cancelled", "active", "finished"
]


class JobChanges(Strict):
    """Fields that are left out stay as they are; null takes a deadline, a limit or a target away."""

    priority: Priority = 50
    deadline: Deadline | None = None
    time_limit: Duration | None = None
    cpus_limit: Cores | None = None
    workers: WorkersField = WorkersIn()
    target: TargetField = None

    def to_fields(self, now: float) -> dict[str, Any]:
        values = {
            "priority": self.priority,
            "deadline": deadline_at(self.deadline, now),
            "time_limit": self.time_limit,
            "cpus_limit": self.cpus_limit,
            "workers": asdict(self.workers.to_domain()),
            "target": dict(zip(("metric", "value", "then"), self.target, strict=True)) if self.target else None,
        }
        return {name: value for name, value in values.items() if name in self.model_fields_set}


class MigrateTo(Strict):
    node: NameFilter


class Exec(Strict):
    """A command and its arguments, as they are: no shell takes part."""

    command: Annotated[list[str], Field(min_length=1, max_length=10_000)]
    worker: Annotated[int, Field(ge=0, le=100_000)] = 0


@router.post("/jobs", status_code=201, response_model=JobOut, responses={200: {"model": DryRun}})
def submit(job: JobIn, caller: Person, gateway: Gate, response: Response, dry_run: bool = False) -> Any:
    """Submit a job. With `dry_run` it is only checked, and its spec is answered with every default filled in."""
    now = gateway.now()
    spec = job.to_domain(now, caller.max_priority)
    if dry_run:
        gateway.check(caller, spec)
        return Response(
            DryRun(spec=spec_out(spec, show_env=True)).model_dump_json(), 200, media_type="application/json"
        )
    row = gateway.submit(caller, spec)
    response.headers["Location"] = f"/api/v1/jobs/{row.job.id}"
    return job_out(row, caller, now, gateway.advice(row))


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
    offset: Annotated[int, Query(ge=0, le=MAX_ID)] = 0,
) -> JobPage:
    states = _states(state) if state else None
    rows, total = gateway.jobs(states, user, name, sort, order == "desc", limit, offset, search)
    now = gateway.now()
    return JobPage(jobs=[job_out(row, caller, now) for row in rows], total=total)


def _states(names: list[StateFilter]) -> set[JobState]:
    wanted: set[JobState] = set()
    for name in names:
        wanted |= _GROUPS.get(name) or {JobState(name)}
    return wanted


@router.get("/jobs/{job}")
def show(job: JobNumber, caller: Person, gateway: Gate) -> JobOut:
    row = gateway.job(JobId(job))
    return job_out(row, caller, gateway.now(), gateway.advice(row))


@router.patch("/jobs/{job}")
def update(job: JobNumber, changes: JobChanges, caller: Person, gateway: Gate) -> JobOut:
    """Change the priority, the deadline, the limits, the number of workers or the target of a job that is not finished.

    `cpus_limit` holds at once, for each of its workers, and in later attempts. A job with more or fewer workers than
    the new range allows is resized at once; if that cannot be, nothing changes, and 409 says why. Whether a new target
    is reached is found out anew.
    """
    now = gateway.now()
    return job_out(gateway.update(caller, JobId(job), changes.to_fields(now)), caller, now)


@router.delete("/jobs/{job}", status_code=202)
def delete(job: JobNumber, caller: Person, gateway: Gate) -> JobOut:
    """Stop it at once if it runs, then forget it and its files. It may still be seen until that is done."""
    return job_out(gateway.delete(caller, JobId(job)), caller, gateway.now())


@router.post("/jobs/{job}/cancel", status_code=202)
def cancel(job: JobNumber, caller: Person, gateway: Gate) -> JobOut:
    """End it. It is kept, as cancelled."""
    return job_out(gateway.cancel(caller, JobId(job)), caller, gateway.now())


@router.post("/jobs/{job}/pause", status_code=202)
def pause(job: JobNumber, caller: Person, gateway: Gate) -> JobOut:
    """Suspend a running job, or hold a queued one back."""
    return job_out(gateway.pause(caller, JobId(job)), caller, gateway.now())


@router.post("/jobs/{job}/resume", status_code=202)
def resume(job: JobNumber, caller: Person, gateway: Gate) -> JobOut:
    return job_out(gateway.resume(caller, JobId(job)), caller, gateway.now())


@router.post("/jobs/{job}/migrate", status_code=202)
def migrate(job: JobNumber, target: MigrateTo, caller: Person, gateway: Gate) -> JobOut:
    """Move a running job to another node: it saves, stops, and goes on there."""
    return job_out(gateway.migrate(caller, JobId(job), NodeName(target.node)), caller, gateway.now())


@router.get("/jobs/{job}/migrate")
def possible_moves(job: JobNumber, gateway: Gate) -> MovePage:
    """The nodes to which a running job could move now, and why not to the others: what a POST would say.

    What does not fit at present is refused, not waited for. 409 if the job does not run.
    """
    found = gateway.possible_moves(JobId(job))
    return MovePage(moves=[MoveOut(node=one.node, problem=one.problem or None) for one in found])


@router.get("/jobs/{job}/explain")
def explain(job: JobNumber, gateway: Gate) -> ExplanationOut:
    """Why it waits, its place in the queue, and when it will probably start."""
    return explanation_out(*gateway.explain(JobId(job)))


@router.get("/jobs/{job}/attempts")
def attempts(job: JobNumber, gateway: Gate) -> AttemptPage:
    return AttemptPage(attempts=[attempt_out(attempt) for attempt in gateway.attempts(JobId(job))])


@router.get("/jobs/{job}/metrics")
def metrics(
    job: JobNumber,
    gateway: Gate,
    name: NameFilter | None = None,
    max_points: Annotated[int, Query(ge=1, le=2000)] = 500,
) -> MetricsOut:
    """The curves of its metrics, thinned to `max_points`."""
    return MetricsOut(series=[series_out(curve) for curve in gateway.curves(JobId(job), name, max_points)])


@router.get("/jobs/{job}/files", response_class=StreamingResponse)
async def files(job: JobNumber, caller: Person, gateway: Gate, path: str = "") -> StreamingResponse:
    """The run folder, or one path in it, as a tar stream; of a job in a container as it is there now."""
    return StreamingResponse(await gateway.beside.files(caller, JobId(job), path), media_type="application/x-tar")


@router.post("/jobs/{job}/exec", response_class=StreamingResponse)
async def exec_beside(job: JobNumber, asked: Exec, caller: Person, gateway: Gate) -> StreamingResponse:
    """Run a command beside a worker: as its user, in its run folder, with its environment and limits.

    The answer is a stream of parcels: a byte for the kind (0 nothing, 1 standard output, 2 standard error, 3 the exit
    code in digits, 4 what went wrong, as JSON), four bytes for the length, big-endian, and the content. 3 or 4 is the
    last. Whoever hangs up before that ends the command.
    """
    parcels = await gateway.beside.run(caller, JobId(job), asked.worker, asked.command)
    return StreamingResponse(parcels, media_type="application/octet-stream")


@router.get("/schema/job", tags=["service"])
def schema() -> dict[str, Any]:
    """JSON Schema of the job spec."""
    return JobIn.model_json_schema()
