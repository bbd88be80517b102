"""From the domain's types to what the API answers."""

from math import isfinite
from typing import Any

from schedulearn.api.body.spec import iso, spec_out
from schedulearn.api.common.schemas import (
    AttemptOut,
    AuditOut,
    DeviceOut,
    EstimateOut,
    EventOut,
    ExitOut,
    ExplanationOut,
    HolderOut,
    JobOut,
    NodeOut,
    PlacementOut,
    PolicyInForce,
    PolicyOut,
    ProgressOut,
    SeriesOut,
    SharingOut,
    SpanOut,
    SpeedUpOut,
    UserOut,
    WeightOut,
    WorkerOut,
)
from schedulearn.core.domain.ids import WorkerId
from schedulearn.core.domain.job import Attempt, Job, Lease, Worker
from schedulearn.core.domain.outcome import Outcome
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.states import JobState
from schedulearn.service.common.auth import Caller
from schedulearn.service.common.identity import ROOT
from schedulearn.service.gateway.views import (
    Advice,
    AuditEntry,
    Curve,
    Explanation,
    JobRow,
    NodeView,
    PolicyView,
    Progress,
    Sharing,
    Span,
    SpeedUpView,
    StoredEvent,
    UserRow,
    Weight,
    WorkerUsage,
)

_NO_ADVICE = Advice()


def job_out(row: JobRow, caller: Caller, now: float, advice: Advice = _NO_ADVICE) -> JobOut:
    job, yours = row.job, caller.owns(row.owner)
    waited_until = job.started_at or job.finished_at or now
    return JobOut(
        id=job.id,
        name=job.spec.name,
        user=job.user,
        yours=yours,
        state=job.state,
        reason=job.reason,
        priority=job.priority,
        deadline=_iso(job.deadline),
        time_limit=job.time_limit,
        cpus_limit=job.cpus_limit,
        reached_at=_iso(job.reached_at),
        attempt=job.attempt,
        workers=len(row.placement),
        placement=[
            PlacementOut(worker=str(WorkerId(job.id, job.attempt, rank)), node=node, devices=list(devices))
            for rank, node, devices in row.placement
        ],
        submitted_at=iso(job.submitted_at),
        started_at=_iso(job.started_at),
        finished_at=_iso(job.finished_at),
        queued_at=iso(job.queued_at or job.submitted_at),
        run_seconds=round(job.ran.at(now), 6),
        wait_seconds=round(max(0.0, waited_until - job.submitted_at), 6),
        restarts=job.restarts,
        preemptions=job.preemptions,
        migrations=job.migrations,
        migration_seconds=round(job.migration_seconds, 6),
        moving_to=sorted({spot.node for spot in job.move.to}) if job.move else [],
        resizes=job.resizes,
        exit=exit_out(job.outcome),
        progress=_progress(row.progress, job, now) if row.progress else None,
        weight=_weight(advice.weight) if advice.weight else None,
        hint=advice.hint,
        speedup=_speedup(advice.speedup) if advice.speedup else None,
        checkpoint_at=_iso(advice.checkpoint_at),
        spec=spec_out(job.spec, private=yours),
    )


def exit_out(outcome: Outcome | None) -> ExitOut | None:
    if outcome is None:
        return None
    return ExitOut(code=outcome.exit_code, signal=outcome.signal, ending=outcome.ending, text=outcome.words())


def _weight(weight: Weight) -> WeightOut:
    amount = weight.amount
    return WeightOut(
        expected=round(amount.expected, 3),
        low=round(amount.low, 3),
        high=round(amount.high, 3),
        unit=weight.unit,
        source=amount.source,
    )


def _speedup(speedup: SpeedUpView) -> SpeedUpOut:
    return SpeedUpOut(workers=speedup.workers, value=round(speedup.value, 3), measured=speedup.measured)


def _progress(progress: Progress, job: Job, now: float) -> ProgressOut:
    return ProgressOut(
        step=progress.step,
        steps=job.spec.steps,
        metric=progress.metric,
        value=_finite(progress.value),
        spark=[_finite(value) for value in progress.spark],
        updated_at=iso(progress.updated_at),
        eta_seconds=_eta(progress.step, job, now),
    )


def _eta(step: int, job: Job, now: float) -> float | None:
    """If it goes on at the pace it had so far."""
    if job.state is not JobState.RUNNING or job.spec.steps is None or step <= 0:
        return None
    return round(max(0, job.spec.steps - step) * job.ran.at(now) / step, 1)


def series_out(curve: Curve) -> SeriesOut:
    series = curve.series
    return SeriesOut(
        name=series.name,
        count=series.count,
        last=_finite(series.last),
        min=series.min,
        max=series.max,
        points=[(point.step, _finite(point.value), iso(point.at)) for point in curve.points],
    )


def event_out(stored: StoredEvent) -> EventOut:
    event = stored.event
    return EventOut(
        serial=stored.serial,
        at=iso(event.at),
        kind=event.kind,
        cause=event.cause,
        job=event.job,
        attempt=event.attempt,
        node=event.node,
        state=event.state,
        data=event.data,
    )


def explanation_out(row: JobRow, explanation: Explanation) -> ExplanationOut:
    guess = explanation.estimate
    estimate = EstimateOut(start_seconds=guess.expected, low=guess.low, high=guess.high) if guess else None
    return ExplanationOut(
        job=row.job.id,
        state=row.job.state,
        text=explanation.text,
        position=explanation.position,
        estimate=estimate,
        stage=explanation.stage,
    )


def attempt_out(attempt: Attempt) -> AttemptOut:
    return AttemptOut(
        attempt=str(attempt.id),
        created_at=iso(attempt.created_at),
        ended_at=_iso(attempt.ended_at),
        stop=attempt.stop,
        generation=attempt.generation,
        workers=[_worker(worker) for worker in attempt.workers],
    )


def _worker(worker: Worker) -> WorkerOut:
    return WorkerOut(
        worker=str(worker.id),
        node=worker.node,
        devices=list(worker.devices),
        started_at=_iso(worker.started_at),
        ended_at=_iso(worker.ended_at),
        left_at=_iso(worker.left_at),
        exit=exit_out(worker.outcome),
    )


def span_out(span: Span) -> SpanOut:
    return SpanOut(
        worker=str(span.worker),
        job=span.worker.job,
        name=span.name,
        user=span.user,
        node=span.node,
        devices=list(span.devices),
        started_at=iso(span.started_at),
        ended_at=_iso(span.until),
        stop=span.stop,
        exit=exit_out(span.outcome),
    )


def node_out(view: NodeView) -> NodeOut:
    node = view.node
    devices = [
        DeviceOut(
            id=device.id,
            kind=device.kind,
            model=device.model,
            memory=device.memory,
            outside_use=device.outside_use,
            job=view.device_jobs.get(device.id),
        )
        for device in node.devices
    ]
    return NodeOut(
        name=node.name,
        executor=node.executor,
        state=node.state,
        problem=node.problem,
        lost_at=_iso(node.lost_at),
        address=node.address,
        version=node.version,
        default_image=node.default_image,
        labels=dict(node.labels),
        capacity=dict(node.capacity),
        reserved=dict(node.reserved),
        leased=_amounts(view.leased, node.capacity),
        free=_amounts(view.free, node.capacity),
        devices=devices,
        jobs=list(view.jobs),
        storage=view.storage,
        sharing=_sharing_out(view.sharing) if view.sharing else None,
        isolation=list(view.isolation),
    )


def _sharing_out(sharing: Sharing) -> SharingOut:
    limits = {str(job): cores for job, cores in sharing.limits.items()}
    return SharingOut(stage=sharing.stage, limits=limits, problem=sharing.problem)


def holder_out(lease: Lease, used: WorkerUsage | None) -> HolderOut:
    latest = used.latest if used else None
    return HolderOut(
        worker=str(lease.worker),
        job=lease.worker.job,
        node=lease.node,
        devices=list(lease.devices),
        leased={name: round(amount, 6) for name, amount in lease.amounts.items()},
        cpus=None if used is None or used.cpus is None else round(used.cpus, 4),
        memory=latest.memory if latest else None,
        cpus_limit=latest.limits.cpus if latest else None,
        memory_limit=latest.limits.memory if latest else None,
    )


def _amounts(amounts: Resources, capacity: Resources) -> dict[str, float]:
    """Every resource of the node by name, also those of which there is nothing."""
    return {name: max(0.0, round(amounts[name], 6)) for name in capacity}


def _fault(view: PolicyView) -> dict[str, Any] | None:
    return {**view.fault, "at": _iso(view.fault.get("at"))} if view.fault else None


def policy_in_force(view: PolicyView) -> PolicyInForce:
    return PolicyInForce(preset=view.choice.preset, stages=dict(view.choice.stages), fault=_fault(view))


def policy_out(view: PolicyView) -> PolicyOut:
    choice = view.choice
    return PolicyOut(
        preset=choice.preset,
        stages=dict(choice.stages),
        params=dict(choice.params),
        available=view.available,
        fault=_fault(view),
        sharing_problems={str(node): problem for node, problem in view.sharing_problems.items()},
    )


def user_out(user: UserRow, runs_as: str) -> UserOut:
    root = user.uid == ROOT
    return UserOut(
        name=user.name,
        role=user.role,
        uid=None if root else user.uid,
        gid=user.gid,
        root=root,
        runs_as=runs_as,
        max_priority=user.max_priority,
    )


def audit_out(entry: AuditEntry) -> AuditOut:
    return AuditOut(
        serial=entry.serial,
        at=iso(entry.at),
        actor=entry.actor,
        actor_id=entry.actor_id,
        origin=entry.origin,
        action=entry.action,
        object=entry.object,
        owner=entry.owner,
        outcome=entry.outcome,
        data=entry.data,
    )


def _iso(at: float | None) -> str | None:
    return None if at is None else iso(at)


def _finite(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if isfinite(value) else None
