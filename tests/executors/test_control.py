"""The group in a control file: newer ones replace older ones, and nothing else is touched."""

import json

import pytest

from schedulearn.core.domain.group import Group
from schedulearn.core.domain.usage import Limits
from schedulearn.executors.common.control import control_text, leads, with_batch, with_group
from schedulearn.job.control import parse

KNOWN = b'{"cpus": 2.0, "threads": 2, "memory": null, "world_size": 2, "generation": 3, "members": [0, 2]}'


@pytest.mark.parametrize("group", [Group(2, (0,)), Group(3, (0, 2)), Group(3, (1,)), Group(0, (0,))])
def test_what_is_not_newer_changes_nothing(group: Group) -> None:
    assert with_group(KNOWN, group) is None


@pytest.mark.parametrize(
    ("known", "rest"),
    [
        (KNOWN, {"cpus": 2.0, "threads": 2, "memory": None}),
        (b'{"cpus": 2.0, "world_size": 1}', {"cpus": 2.0}),  # of an earlier version
        (b'{"cpus": 2', {}),
        (b'{"cpus": 2.0, "generation": "x", "members": []}', {"cpus": 2.0}),
        (b"", {}),
        (b"[1]", {}),
    ],
)
def test_a_newer_one_is_written_and_the_rest_is_kept(known: bytes, rest: dict[str, object]) -> None:
    text = with_group(known, Group(4, (0, 2, 5)))
    assert text
    assert json.loads(text) == {**rest, "world_size": 3, "generation": 4, "members": [0, 2, 5]}


@pytest.mark.parametrize(
    ("known", "rank", "first"),
    [(KNOWN, 0, True), (KNOWN, 2, False), (b"", 0, True), (b"", 1, False), (b'{"members": [3, 4]}', 3, True)],
)
def test_who_leads(known: bytes, rank: int, first: bool) -> None:
    assert leads(known, rank) is first


def test_a_batch_size_stays_while_limits_and_group_change() -> None:
    known = with_batch(KNOWN[:-1] + b', "batches": [32, 512]}', 64)
    regrouped = with_group(control_text(known, Limits(cpus=1.0), 4.0), Group(4, (0, 1)))
    assert regrouped
    control = parse(json.loads(regrouped))
    assert (control.batches, control.batch, control.members, control.cpus) == ((32, 512), 64, (0, 1), 1.0)
    assert (parse(json.loads(KNOWN)).batches, parse(json.loads(KNOWN)).batch) == (None, None)
