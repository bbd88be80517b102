"""Domain objects to rows and back."""

from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import Row

from schedulearn.core.domain.ids import AttemptId, DeviceId, JobId, NodeName, WorkerId
from schedulearn.core.domain.job import Accrual, Attempt, HistoryEvent, Job, Lease, Move, Spot, Worker
from schedulearn.core.domain.node import Device, Node, NodeState
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.spec import JobSpec, Target, Workers, spec_from_dict, spec_to_dict
from schedulearn.core.domain.states import JobState, StopReason

Values = dict[str, Any]
JOB_FIXED = ("name", "user", "owner", "submitted_at", "spec")  # columns that never change once a job is submitted


def job_values(job: Job) -> Values:
    return {
        "id": job.id,
        "name": job.spec.name,
        "user": job.user,
        "submitted_at": job.submitted_at,
        "spec": spec_to_dict(job.spec),
        "gpus": job.spec.resources.gpus * job.spec.workers.want,
        "state": job.state.value,
        "reason": job.reason,
        "priority": job.priority,
        "deadline": job.deadline,
        "time_limit": job.time_limit,
        "cpus_limit": job.cpus_limit,
        "workers": asdict(job.spec.workers),
        "target": asdict(job.spec.target) if job.spec.target else {},
        "reached_at": job.reached_at,
        "attempt": job.attempt,
        "restarts": job.restarts,
        "preemptions": job.preemptions,
        "migrations": job.migrations,
        "migration_seconds": job.migration_seconds,
        "move": _move_values(job.move),
        "resizes": job.resizes,
        "not_before": job.not_before,
        "queued_at": job.queued_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "ran_value": job.ran.value,
        "ran_since": job.ran.since,
        "ran_rate": job.ran.rate,
        "attained_value": job.attained.value,
        "attained_since": job.attained.since,
        "attained_rate": job.attained.rate,
        "stop": job.stop.value if job.stop else None,
        "outcome": _outcome_values(job.outcome),
        "forget": job.forget,
        "mark": job.mark,
    }


def job_from(row: Row[Any]) -> Job:
    return Job(
        id=JobId(row.id),
        spec=_spec_from(row),
        user=row.user,
        submitted_at=row.submitted_at,
        state=JobState(row.state),
        reason=row.reason,
        priority=row.priority,
        deadline=row.deadline,
        time_limit=row.time_limit,
        cpus_limit=row.cpus_limit,
        reached_at=row.reached_at,
        attempt=row.attempt,
        restarts=row.restarts,
        preemptions=row.preemptions,
        migrations=row.migrations,
        migration_seconds=row.migration_seconds or 0.0,
        move=_move_from(row.move),
        resizes=row.resizes,
        not_before=row.not_before,
        queued_at=row.queued_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        ran=Accrual(row.ran_value, row.ran_since, row.ran_rate),
        attained=Accrual(row.attained_value, row.attained_since, row.attained_rate),
        stop=StopReason(row.stop) if row.stop else None,
        outcome=outcome_from(row.outcome),
        forget=row.forget,
        mark=row.mark,
    )


def _spec_from(row: Row[Any]) -> JobSpec:
    """As it was agreed, with the number of workers and the target that were asked for last."""
    spec = spec_from_dict(row.spec)
    workers = Workers(**row.workers) if row.workers else spec.workers
    target = spec.target if row.target is None else Target(**row.target) if row.target else None
    return replace(spec, workers=workers, target=target)


def _move_values(move: Move | None) -> Values | None:
    if move is None:
        return None
    return {"since": move.since, "source": list(move.source), "to": [[s.node, list(s.devices)] for s in move.to]}


def _move_from(values: Values | None) -> Move | None:
    if values is None:
        return None
    to = tuple(Spot(NodeName(node), tuple(map(DeviceId, devices))) for node, devices in values["to"])
    return Move(values["since"], tuple(map(NodeName, values["source"])), to)


def attempt_values(attempt: Attempt) -> Values:
    return {
        "job": attempt.id.job,
        "number": attempt.id.number,
        "created_at": attempt.created_at,
        "stop": attempt.stop.value if attempt.stop else None,
        "stop_asked_at": attempt.stop_asked_at,
        "ended_at": attempt.ended_at,
        "generation": attempt.generation,
    }


def attempt_from(row: Row[Any], workers: list[Worker]) -> Attempt:
    return Attempt(
        id=AttemptId(JobId(row.job), row.number),
        created_at=row.created_at,
        workers=workers,
        stop=StopReason(row.stop) if row.stop else None,
        stop_asked_at=row.stop_asked_at,
        ended_at=row.ended_at,
        generation=row.generation or 0,
    )


def worker_key(worker: WorkerId) -> Values:
    return {"job": worker.job, "attempt": worker.attempt, "rank": worker.rank}


def worker_values(worker: Worker) -> Values:
    return {
        **worker_key(worker.id),
        "node": worker.node,
        "devices": list(worker.devices),
        "started_at": worker.started_at,
        "ended_at": worker.ended_at,
        "outcome": _outcome_values(worker.outcome),
        "joined": worker.joined,
        "left_at": worker.left_at,
    }


def worker_from(row: Row[Any]) -> Worker:
    return Worker(
        id=WorkerId(JobId(row.job), row.attempt, row.rank),
        node=NodeName(row.node),
        devices=tuple(DeviceId(d) for d in row.devices),
        started_at=row.started_at,
        ended_at=row.ended_at,
        outcome=outcome_from(row.outcome),
        joined=row.joined or 0,
        left_at=row.left_at,
    )


def lease_values(lease: Lease) -> Values:
    return {
        **worker_key(lease.worker),
        "node": lease.node,
        "amounts": dict(lease.amounts),
        "devices": list(lease.devices),
    }


def lease_from(row: Row[Any]) -> Lease:
    return Lease(
        worker=WorkerId(JobId(row.job), row.attempt, row.rank),
        node=NodeName(row.node),
        amounts=Resources(row.amounts),
        devices=tuple(DeviceId(d) for d in row.devices),
    )


def node_values(node: Node) -> Values:
    return {
        "name": node.name,
        "executor": node.executor,
        "state": node.state.value,
        "capacity": dict(node.capacity),
        "reserved": dict(node.reserved),
        "cpus_per_gpu": node.cpus_per_gpu,
        "labels": [list(label) for label in node.labels],
        "address": node.address,
        "default_image": node.default_image,
        "engine": node.engine,
        "version": node.version,
        "drain": node.drain,
        "lost_at": node.lost_at,
        "problem": node.problem,
    }


def node_from(row: Row[Any], devices: list[Device]) -> Node:
    return Node(
        name=NodeName(row.name),
        executor=row.executor,
        capacity=Resources(row.capacity),
        reserved=Resources(row.reserved),
        cpus_per_gpu=row.cpus_per_gpu,
        devices=tuple(devices),
        state=NodeState(row.state),
        labels=tuple((key, value) for key, value in row.labels),
        address=row.address or "",
        default_image=row.default_image or "",
        engine=row.engine or "",
        version=row.version or "",
        drain=bool(row.drain),
        lost_at=row.lost_at,
        problem=row.problem or "",
    )


def device_values(node: Node) -> list[Values]:
    return [{**asdict(device), "node": node.name, "position": n} for n, device in enumerate(node.devices)]


def device_from(row: Row[Any]) -> Device:
    return Device(DeviceId(row.id), row.kind, row.model, row.memory, row.outside_use)


def event_values(event: HistoryEvent) -> Values:
    return {
        "at": event.at,
        "kind": event.kind,
        "cause": event.cause,
        "job": event.job,
        "attempt": event.attempt,
        "node": event.node,
        "state": event.state.value if event.state else None,
        "data": event.data,
    }


def event_from(row: Row[Any]) -> HistoryEvent:
    return HistoryEvent(
        at=row.at,
        kind=row.kind,
        cause=row.cause,
        job=None if row.job is None else JobId(row.job),
        attempt=row.attempt,
        node=None if row.node is None else NodeName(row.node),
        state=JobState(row.state) if row.state else None,
        data=row.data,
    )


def _outcome_values(outcome: Outcome | None) -> Values | None:
    return None if outcome is None else {k: v for k, v in asdict(outcome).items() if v not in (None, "")}


def outcome_from(values: Values | None) -> Outcome | None:
    return None if values is None else Outcome(**{**values, "ending": Ending(values["ending"])})
