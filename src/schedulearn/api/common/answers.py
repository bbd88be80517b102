"""From the domain's types to what the API answers (`schedulearn.wire.types`)."""

from collections.abc import Hashable, Mapping, Sequence
from enum import Enum
from functools import cache
from itertools import pairwise
from math import isfinite
from typing import Any, TypeVar, cast, get_args, get_type_hints

from schedulearn.api.body.spec import spec_out
from schedulearn.core.domain.ids import WorkerId
from schedulearn.core.domain.job import Attempt, Job, Lease, Worker
from schedulearn.core.domain.outcome import Outcome
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.states import JobState
from schedulearn.core.domain.usage import Usage, cores_used
from schedulearn.service.common.auth import Caller
from schedulearn.service.common.identity import ROOT
from schedulearn.service.gateway.views import (
    Advice,
    Curve,
    Explanation,
    JobRow,
    NodeView,
    Progress,
    Span,
    StoredEvent,
    UserRow,
    Weight,
    WorkerUsage,
)
from schedulearn.wire import types
from schedulearn.wire.words import iso

T = TypeVar("T")
_NO_ADVICE = Advice()


def answer(kind: type[T], source: object, **computed: Any) -> T:
    """What is computed, and all other fields as the source has them: times as texts, tuples as lists."""
    made = {
        name: computed[name] if name in computed else _plain(getattr(source, name), is_time)
        for name, is_time in _fields(cast(Hashable, kind))
    }
    return cast(T, made)


@cache
def _fields(kind: Any) -> tuple[tuple[str, bool], ...]:
    """The names of its fields, and which of them are times."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple((name, types.Time in (hint, *get_args(hint))) for name, hint in hints.items())


def _plain(value: Any, is_time: bool) -> Any:
    if value is None:
        return None
    if is_time:
        return iso(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def job_out(row: JobRow, caller: Caller, now: float, advice: Advice = _NO_ADVICE) -> types.Job:
    job, yours = row.job, caller.owns(row.owner)
    waited_until = job.started_at or job.finished_at or now
    return answer(
        types.Job,
        job,
        name=job.spec.name,
        yours=yours,
        workers=len(row.placement),
        placement=[
            types.Placement(worker=str(WorkerId(job.id, job.attempt, rank)), node=node, devices=list(devices))
            for rank, node, devices in row.placement
        ],
        queued_at=iso(job.queued_at or job.submitted_at),
        run_seconds=round(job.ran.at(now), 6),
        wait_seconds=round(max(0.0, waited_until - job.submitted_at), 6),
        migration_seconds=round(job.migration_seconds, 6),
        moving_to=sorted({placement.node for placement in job.move.to}) if job.move else [],
        exit=exit_out(job.outcome),
        progress=_progress(row.progress, job, now) if row.progress else None,
        weight=_weight(advice.weight, advice.errors) if advice.weight else None,
        hint=advice.hint,
        speedup=advice.speedup,
        checkpoint_at=time_out(advice.checkpoint_at),
        spec=spec_out(job.spec, private=yours),
    )


def exit_out(outcome: Outcome | None) -> types.Exit | None:
    if outcome is None:
        return None
    return answer(types.Exit, outcome, code=outcome.exit_code, text=outcome.words())


def _weight(weight: Weight, errors: types.SourceErrors | None) -> types.Weight:
    amount = weight.amount
    low, expected, high = (round(one, 3) for one in (amount.low, amount.expected, amount.high))
    return types.Weight(expected=expected, low=low, high=high, unit=weight.unit, source=amount.source, errors=errors)


def _progress(progress: Progress, job: Job, now: float) -> types.Progress:
    return answer(
        types.Progress,
        progress,
        steps=job.spec.steps,
        value=_finite(progress.value),
        spark=[_finite(value) for value in progress.spark],
        eta_seconds=_eta(progress.step, job, now),
    )


def _eta(step: int, job: Job, now: float) -> float | None:
    """If it goes on at the pace it had so far."""
    if job.state is not JobState.RUNNING or job.spec.steps is None or step <= 0:
        return None
    return round(max(0, job.spec.steps - step) * job.ran.at(now) / step, 1)


def series_out(curve: Curve) -> types.Series:
    points = [(point.step, _finite(point.value), iso(point.at)) for point in curve.points]
    return answer(types.Series, curve.series, last=_finite(curve.series.last), points=points)


def event_out(stored: StoredEvent) -> types.Event:
    return answer(types.Event, stored.event, serial=stored.serial)


def explanation_out(row: JobRow, why: Explanation, errors: Sequence[types.SourceErrors] = ()) -> types.Explanation:
    guess = why.estimate
    estimate = types.Estimate(start_seconds=guess.expected, low=guess.low, high=guess.high) if guess else None
    past = list(errors) if guess else []
    return answer(types.Explanation, why, job=row.job.id, state=row.job.state.value, estimate=estimate, errors=past)


def attempt_out(attempt: Attempt) -> types.Attempt:
    workers = [_worker(worker) for worker in attempt.workers]
    return answer(types.Attempt, attempt, attempt=str(attempt.id), workers=workers)


def _worker(worker: Worker) -> types.AttemptWorker:
    return answer(types.AttemptWorker, worker, worker=str(worker.id), exit=exit_out(worker.outcome))


def span_out(span: Span) -> types.Span:
    return answer(
        types.Span,
        span,
        worker=str(span.worker),
        job=span.worker.job,
        ended_at=time_out(span.until),
        exit=exit_out(span.outcome),
    )


def usage_out(used: WorkerUsage) -> types.WorkerUsage:
    rates = [None, *(cores_used(*pair) for pair in pairwise(used.points))]
    return answer(
        types.WorkerUsage,
        used,
        worker=str(used.worker),
        latest=_look(used.latest, used.cpus),
        points=[_look(look, rate) for look, rate in zip(used.points, rates, strict=False)],
    )


def _look(look: Usage, cpus: float | None) -> types.Look:
    return answer(
        types.Look,
        look,
        cpus=_rounded(cpus, 4),
        cpu_seconds=round(look.cpu_seconds, 6),
        energy=_rounded(look.energy, 3),
        cpus_limit=look.limits.cpus,
        weight=look.limits.weight,
        memory_limit=look.limits.memory,
    )


def node_out(view: NodeView) -> types.Node:
    node = view.node
    return answer(
        types.Node,
        node,
        labels=dict(node.labels),
        leased=_amounts(view.leased, node.capacity),
        free=_amounts(view.free, node.capacity),
        devices=[answer(types.Device, device, job=view.device_jobs.get(device.id)) for device in node.devices],
        jobs=list(view.jobs),
        storage=view.storage,
        sharing=view.sharing,
        isolation=list(view.isolation),
    )


def _amounts(amounts: Resources, capacity: Resources) -> dict[str, float]:
    """Every resource of the node by name, also those of which there is nothing."""
    return {name: max(0.0, round(amounts[name], 6)) for name in capacity}


def holder_out(lease: Lease, used: WorkerUsage | None) -> types.Holder:
    latest = used.latest if used else None
    return answer(
        types.Holder,
        lease,
        worker=str(lease.worker),
        job=lease.worker.job,
        leased={name: round(amount, 6) for name, amount in lease.amounts.items()},
        cpus=_rounded(used.cpus, 4) if used else None,
        memory=latest.memory if latest else None,
        cpus_limit=latest.limits.cpus if latest else None,
        memory_limit=latest.limits.memory if latest else None,
    )


def user_out(user: UserRow, runs_as: str) -> types.User:
    root = user.uid == ROOT
    return answer(types.User, user, uid=None if root else user.uid, root=root, runs_as=runs_as)


def time_out(at: float | None) -> str | None:
    return None if at is None else iso(at)


def _finite(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if isfinite(value) else None


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
