"""What a notice says, and what is said when it does not arrive."""

import secrets
from datetime import UTC, datetime
from typing import Any

from schedulearn.core.domain.errors import SchedulearnError
from schedulearn.core.domain.job import HistoryEvent, Job
from schedulearn.core.domain.states import JobState
from schedulearn.core.domain.units import format_duration
from schedulearn.pinned import without_pin
from schedulearn.store import JobRow


class Undelivered(SchedulearnError):
    """A notice did not arrive. `final`: trying again would not help."""

    def __init__(self, problem: str, final: bool = False) -> None:
        self.final = final
        super().__init__(problem)


_DID = {JobState.SUCCEEDED: "has succeeded", JobState.FAILED: "has failed", JobState.CANCELLED: "was cancelled"}


def of_end(row: JobRow, event: HistoryEvent, service: str) -> dict[str, Any]:
    """The end of a job, as it is sent; `service` is the address of the API."""
    job, state = row.job, event.state or row.job.state
    ran = format_duration(job.ran.at(event.at))
    text = f"job {job.id} ({job.spec.name}) {_DID[state]} after {ran}: {event.cause}"
    return _content(f"job.{state}", text, event.at, _of_job(row, state, event.cause, service))


def of_test(user: str, at: float) -> dict[str, Any]:
    """What `notify test` sends."""
    return _content("test", f"a test, asked for by {user}: notices of ended jobs come this way", at, {"user": user})


def _content(kind: str, text: str, at: float, data: dict[str, Any]) -> dict[str, Any]:
    # The id stays the same however often it is tried: a receiver that got it twice can tell.
    return {"id": f"msg_{secrets.token_hex(12)}", "type": kind, "timestamp": _iso(at), "text": text, "data": data}


def _of_job(row: JobRow, state: JobState, cause: str, service: str) -> dict[str, Any]:
    job = row.job
    return {
        "job": job.id,
        "name": job.spec.name,
        "user": job.user,
        "state": state.value,
        "cause": cause,
        **_times(job),
        "attempts": row.attempts,
        "exit": job.outcome.words() if job.outcome else None,
        "progress": _progress(row),
        "url": f"{without_pin(service)}/api/v1/jobs/{job.id}" if service else None,
    }


def _times(job: Job) -> dict[str, Any]:
    ends = {"submitted_at": job.submitted_at, "started_at": job.started_at, "finished_at": job.finished_at}
    ran = round(job.ran.at(job.finished_at or job.submitted_at), 3)
    return {**{name: None if at is None else _iso(at) for name, at in ends.items()}, "run_seconds": ran}


def _progress(row: JobRow) -> dict[str, Any] | None:
    if row.progress is None:
        return None
    value = row.progress.value
    known = value if abs(value) < float("inf") else None  # JSON has neither nan nor infinity
    return {"step": row.progress.step, "metric": row.progress.metric, "value": known}


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
