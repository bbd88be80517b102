"""From what the API wrote into the store to events of the control loop."""

from collections.abc import Callable

from schedulearn.core.control.state import State
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.states import FINISHED, JobState
from schedulearn.store import Request, Store


def to_event(request: Request, store: Store, state: State, now: float) -> ev.Event | None:
    """The event that follows from a request, or None if it has become pointless meanwhile."""
    make = _EVENTS.get(request.kind)
    return make(request, store, state, now) if make else None


def _submit(request: Request, store: Store, state: State, now: float) -> ev.Event | None:
    row = store.job(_job(request))
    if row is None or row.job.id in state.jobs or row.job.state is not JobState.QUEUED:
        return None
    return ev.Submitted(now, row.job, _ended(row.job.spec.depends_on, store, state))


def _ended(wanted: tuple[JobId, ...], store: Store, state: State) -> dict[JobId, JobState]:
    rows = {job: store.job(job) for job in wanted if job not in state.jobs}
    return {job: row.job.state for job, row in rows.items() if row and row.job.state in FINISHED}


def _job(request: Request) -> JobId:
    assert request.job is not None, f"a request of kind {request.kind} names its job"
    return request.job


_EVENTS: dict[str, Callable[[Request, Store, State, float], ev.Event | None]] = {
    "submit": _submit,
    "cancel": lambda r, _, __, now: ev.CancelAsked(now, _job(r), r.by),
    "delete": lambda r, _, __, now: ev.DeleteAsked(now, _job(r), r.by),
    "pause": lambda r, _, __, now: ev.PauseAsked(now, _job(r), r.by),
    "resume": lambda r, _, __, now: ev.ResumeAsked(now, _job(r), r.by),
    "migrate": lambda r, _, __, now: ev.MigrateAsked(now, _job(r), NodeName(r.data["node"]), r.by),
    "update": lambda r, _, __, now: ev.UpdateAsked(now, _job(r), r.by, dict(r.data)),
    "node_remove": lambda r, _, __, now: ev.RemoveNodeAsked(now, NodeName(r.data["node"]), r.by, bool(r.data["force"])),
    "node_labels": lambda r, _, __, now: ev.LabelsAsked(
        now, NodeName(r.data["node"]), r.by, tuple((str(k), str(v)) for k, v in r.data["labels"])
    ),
    "drain": lambda r, _, __, now: ev.DrainAsked(now, NodeName(r.data["node"]), r.by, bool(r.data["drain"])),
}
