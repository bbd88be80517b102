"""Objects to rows and back. A field is kept in the column of its name; only what is kept otherwise is said here."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, cast

from sqlalchemy import Row, Table

from schedulearn.core.domain.ids import AttemptId, WorkerId
from schedulearn.core.domain.job import Attempt, Job, Lease, Worker
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.spec import JobSpec, spec_from_dict, spec_to_dict
from schedulearn.store import tables

T = TypeVar("T")
Values = dict[str, Any]
_FIXED = ("id", "user", "submitted_at", "spec")  # fields of a job that never change once it is submitted
# The field that is an id of several parts, each of which has its column.
_IDS: dict[Any, tuple[str, type[AttemptId | WorkerId]]] = {
    Attempt: ("id", AttemptId),
    Worker: ("id", WorkerId),
    Lease: ("worker", WorkerId),
}


@cache
def field_names(kind: Any) -> tuple[str, ...]:
    """What the constructor takes. Fields that it does not take are found again, and never stored."""
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind) if field.init)
    return cast(tuple[str, ...], kind._fields)  # a named tuple


@cache
def _shared(kind: Any, table: Table) -> tuple[str, ...]:
    return tuple(name for name in field_names(kind) if name in table.columns)


def values(thing: Any, table: Table) -> Values:
    """The fields that have a column of their name, and the parts of its id."""
    kind: Any = type(thing)
    parts = getattr(thing, _IDS[kind][0])._asdict() if kind in _IDS else {}
    return {name: getattr(thing, name) for name in _shared(kind, table)} | parts


def made(kind: Callable[..., T], row: Row[Any], **others: Any) -> T:
    """The inverse: `others` are the fields that have no column of their name, or another meaning."""
    if kind in _IDS:
        field, id = _IDS[kind]
        others[field] = id(*(getattr(row, part) for part in id._fields))
    names, read = _read(kind, tuple(others))
    return kind(**dict(zip(names, read(row), strict=True)), **others)


@cache
def _read(kind: Any, others: tuple[str, ...]) -> tuple[tuple[str, ...], Callable[[Row[Any]], tuple[Any, ...]]]:
    """The fields that are in the row, and what reads them; there are several of every kind."""
    names = tuple(name for name in field_names(kind) if name not in others)
    return names, attrgetter(*names)


_CHANGING = tuple(name for name in _shared(Job, tables.jobs) if name not in _FIXED)


def job_values(job: Job) -> Values:
    """Of a new one."""
    return values(job, tables.jobs) | job_changes(job) | {"name": job.spec.name, "spec": spec_to_dict(job.spec)}


def job_changes(job: Job) -> Values:
    """What may change after it was submitted."""
    spec = job.spec
    return {name: getattr(job, name) for name in _CHANGING} | {
        "gpus": spec.resources.gpus * spec.workers.want,
        "workers": spec.workers,
        "target": spec.target,
    }


def job_from(row: Row[Any]) -> Job:
    return made(Job, row, spec=_spec_from(row))


def _spec_from(row: Row[Any]) -> JobSpec:
    """As it was agreed, with the number of workers and the target that were asked for last."""
    return replace(spec_from_dict(row.spec), workers=row.workers, target=row.target)


def device_values(node: Node) -> list[Values]:
    return [
        values(device, tables.devices) | {"node": node.name, "position": position}
        for position, device in enumerate(node.devices)
    ]
