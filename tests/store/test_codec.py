"""Whatever an object holds comes back from its row; a field without a column of its own is noticed here."""

from dataclasses import fields, is_dataclass
from enum import StrEnum
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Attempt, HistoryEvent, Job, Lease, Worker
from schedulearn.core.domain.node import Device, Node
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.spec import JobSpec, Target, Workers
from schedulearn.store import codec, tables

MICROSECONDS = st.integers(-(2**40), 2**50).map(lambda count: count / 1_000_000)  # times are kept so exactly
SPECS = st.builds(
    JobSpec,
    st.sampled_from(["mnist", "ü"]),
    st.sampled_from(["python train.py", ("a", "b")]),
    workers=st.builds(Workers, st.just(1), st.integers(1, 3), st.integers(3, 5)),
    target=st.none() | st.builds(Target, st.floats(allow_nan=False, allow_infinity=False)),
)
KNOWN = {
    float: MICROSECONDS,
    int: st.integers(0, 2**31 - 1),
    bool: st.booleans(),
    str: st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    JobSpec: SPECS,
    Resources: st.dictionaries(st.sampled_from(["cpus", "gpus", "memory"]), MICROSECONDS).map(Resources),
    Any: st.none() | st.dictionaries(st.text(max_size=3), st.integers() | st.floats(allow_nan=False)),
}


def any_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type, made from its fields: a new field needs nothing here."""
    kind = getattr(kind, "__supertype__", kind)
    origin, inner = get_origin(kind), get_args(kind)
    if kind in KNOWN:
        return KNOWN[kind]
    if origin in (Union, UnionType):
        return st.one_of([st.none() if one is type(None) else any_of(one) for one in inner])
    if origin is tuple:
        whole = inner[1:] == (...,)
        return st.lists(any_of(inner[0]), max_size=3).map(tuple) if whole else st.tuples(*map(any_of, inner))
    if origin is list:
        return st.lists(any_of(inner[0]), max_size=3)
    if origin is dict:
        return KNOWN[Any].map(lambda found: found or {})
    if issubclass(kind, StrEnum):
        return st.sampled_from(list(kind))
    hints = get_type_hints(kind)
    return st.builds(kind, **{name: any_of(hints[name]) for name in codec.field_names(kind)})


def row_of(table: sa.Table, values: dict[str, Any]) -> sa.Row[Any]:
    """The values, written to a table and read again; those that the caller of the codec adds are left out."""
    engine = sa.create_engine("sqlite://")
    alone = sa.Table(
        table.name, sa.MetaData(), *(sa.Column(c.name, c.type, key=c.key, nullable=c.nullable) for c in table.columns)
    )
    alone.create(engine)
    with engine.begin() as connection:
        missing = {column.key: 0 for column in table.columns if not column.nullable and column.key not in values}
        connection.execute(sa.insert(alone), missing | values)
        row = connection.execute(sa.select(alone)).one()
    engine.dispose()
    return row


TABLES = {
    Job: tables.jobs,
    Worker: tables.workers,
    Lease: tables.leases,
    HistoryEvent: tables.events,
}


@pytest.mark.parametrize("kind", TABLES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_what_is_kept_comes_back(kind: Any, data: st.DataObject) -> None:
    table, thing = TABLES[kind], data.draw(any_of(kind))
    if kind is Job:
        assert codec.job_from(row_of(table, codec.job_values(thing))) == thing
    else:
        assert codec.made(kind, row_of(table, codec.values(thing, table))) == thing


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_of(Attempt))
def test_an_attempt_comes_back_with_its_workers(attempt: Attempt) -> None:
    row = row_of(tables.attempts, codec.values(attempt, tables.attempts))
    assert codec.made(Attempt, row, workers=attempt.workers) == attempt


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_of(Node))
def test_a_node_comes_back_with_its_devices(node: Node) -> None:
    rows = [row_of(tables.devices, values) for values in codec.device_values(node)]
    assert [row.position for row in rows] == list(range(len(node.devices)))
    devices = [codec.made(Device, row) for row in rows]
    assert codec.made(Node, row_of(tables.nodes, codec.values(node, tables.nodes)), devices=tuple(devices)) == node


def test_no_field_is_forgotten() -> None:
    """Each field that a constructor takes has a column of its name, or is part of the key."""
    in_keys = {Attempt: {"id", "workers"}, Worker: {"id"}, Lease: {"worker"}, Node: {"devices"}, Device: set()}
    kept = {Job: tables.jobs, Attempt: tables.attempts, Worker: tables.workers, Lease: tables.leases}
    kept |= {Node: tables.nodes, Device: tables.devices, HistoryEvent: tables.events}
    for kind, table in kept.items():
        assert set(codec.field_names(kind)) - set(table.columns.keys()) == in_keys.get(kind, set()), kind


def test_what_is_not_kept_is_what_the_constructor_does_not_take() -> None:
    assert is_dataclass(Job)
    found_again = {field.name for field in fields(Job) if not field.init}
    assert "placements" in found_again
    job = Job(JobId(1), JobSpec("mnist", "true"), "ann", 0.0)
    assert found_again.isdisjoint(codec.job_values(job))
