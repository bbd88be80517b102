"""The group in a control file: newer ones replace older ones, and nothing else is touched."""

import json

import pytest

from schedulearn.core.domain.group import Group
from schedulearn.executors.common.control import leads, with_group

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
