"""Targets of jobs that are there already."""

from typing import Any

import pytest

JOBS = "/api/v1/jobs"


def submitted(caller: Any, **more: Any) -> int:
    return int(caller.post(JOBS, json={"command": "true", **more}).json()["id"])


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ({"loss": 0.05}, {"value": 0.05, "then": "yield"}),
        ({"loss": 1, "then": "stop"}, {"value": 1.0, "then": "stop"}),
        (None, None),
    ],
)
def test_a_target_is_set_or_taken_away(world: Any, ann: Any, asked: Any, kept: Any) -> None:
    job = submitted(ann, target={"loss": 0.5})
    shown = ann.patch(f"{JOBS}/{job}", json={"target": asked}).json()
    assert shown["spec"]["target"] == (None if kept is None else {"loss": kept["value"], "then": kept["then"]})
    assert shown["reached_at"] is None
    assert world.requests() == [("update", job, {"target": kept}, "ann")]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"acc": 0.9}, "'acc' is not the job's metric"),
        ({"loss": 0.05, "then": "party"}, "is not a target"),
        ({"loss": 1, "acc": 2}, "is not a target"),
        (0.05, "is not a target"),
        ({"loss": "low"}, "is not a number"),
    ],
)
def test_a_wrong_target_is_named(world: Any, ann: Any, problem: Any, asked: Any, words: str) -> None:
    job = submitted(ann)
    told = problem(ann.patch(f"{JOBS}/{job}", json={"target": asked}), 422)
    assert told["field"] == "target"
    assert words in told["detail"]
    assert world.requests() == []
