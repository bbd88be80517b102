"""Asking for a migration: who may, what is refused at once, and what is told of it."""

from dataclasses import replace
from typing import Any

import pytest

from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Move, Placement
from schedulearn.core.domain.node import Node, NodeState
from schedulearn.core.domain.resources import Resources

JOBS = "/api/v1/jobs"
NOW = 1_800_000_000.0
GPU2 = Node(NodeName("gpu2"), capacity=Resources(cpus=4, memory=8e9))


@pytest.fixture
def running(world: Any, job: int) -> int:
    """Ann's job on `local`, with other nodes beside it."""
    full = replace(GPU2, name=NodeName("full"), capacity=Resources(cpus=0.5))
    world.save(nodes=[GPU2, full, replace(GPU2, name=NodeName("gone"), state=NodeState.LOST)])
    world.run(job)
    return job


def test_a_migration_is_asked_for(world: Any, ann: Any, running: int) -> None:
    answer = ann.post(f"{JOBS}/{running}/migrate", json={"node": "gpu2"})
    assert answer.status_code == 202
    assert (answer.json()["id"], answer.json()["moving_to"]) == (running, [])
    assert world.requests() == [("migrate", running, {"node": "gpu2"}, "ann")]


def test_the_owner_and_administrators_may(world: Any, bob: Any, root: Any, running: int) -> None:
    assert bob.post(f"{JOBS}/{running}/migrate", json={"node": "gpu2"}).status_code == 403
    assert world.requests() == []
    assert root.post(f"{JOBS}/{running}/migrate", json={"node": "gpu2"}).status_code == 202


@pytest.mark.parametrize(
    ("body", "field", "problem"),
    [
        ({"node": "gpu3"}, "node", "there is no node 'gpu3'"),
        ({"node": "local"}, "node", "runs on local already"),
        ({"node": "gone"}, "node", "gone is lost"),
        ({"node": "full"}, "node", "full could not hold its worker"),
        ({"node": 7}, "node", ""),
        ({}, "node", ""),
        ({"nod": "gpu2"}, "nod", "did you mean node"),
    ],
)
def test_a_wrong_target_is_refused_at_once(
    world: Any, ann: Any, running: int, body: Any, field: str, problem: str
) -> None:
    answer = ann.post(f"{JOBS}/{running}/migrate", json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert problem in answer.json()["detail"]
    assert world.requests() == []


def test_where_it_could_go_is_told_to_everybody(world: Any, ann: Any, bob: Any, running: int) -> None:
    busy = replace(GPU2, name=NodeName("busy"), capacity=Resources(cpus=1, memory=8e9))
    world.save(nodes=[replace(GPU2, name=NodeName("engine"), executor="docker"), busy])
    world.run(ann.post(JOBS, json={"command": "true", "resources": {"cpus": 1}}).json()["id"], node="busy")
    moves = {one["node"]: one["problem"] for one in bob.get(f"{JOBS}/{running}/migrate").json()["moves"]}
    assert moves == {
        "gpu2": None,
        "full": "full could not hold its worker even if it were empty",
        "gone": "gone is lost",
        "engine": "engine has no image for jobs that name none",
        "busy": "busy has no room for its worker at present",
    }
    for node, problem in moves.items():
        answer = ann.post(f"{JOBS}/{running}/migrate", json={"node": node})
        assert answer.status_code == (422 if problem else 202), "what is told is what is done"
        assert problem is None or problem in answer.json()["detail"]


def test_where_a_job_could_go_that_does_not_run(ann: Any, job: int) -> None:
    answer = ann.get(f"{JOBS}/{job}/migrate")
    assert answer.status_code == 409
    assert "cannot be moved: it is queued" in answer.json()["detail"]
    assert ann.get(f"{JOBS}/4711/migrate").status_code == 404


def test_what_is_allowed_is_said(ann: Any, running: int) -> None:
    assert ann.post(f"{JOBS}/{running}/migrate", json={"node": "x"}).json()["allowed"] == "a node with room: gpu2"


def test_only_a_running_job_can_be_moved(world: Any, ann: Any, job: int) -> None:
    answer = ann.post(f"{JOBS}/{job}/migrate", json={"node": "gpu2"})
    assert answer.status_code == 409
    assert f"job {job} cannot be moved: it is queued" in answer.json()["detail"]
    assert ann.post(f"{JOBS}/4711/migrate", json={"node": "gpu2"}).status_code == 404


def test_moves_and_what_they_cost_are_shown(world: Any, ann: Any, running: int) -> None:
    changed = world.job(running)
    changed.migrations, changed.migration_seconds = 2, 7.25
    changed.move = Move(NOW, (NodeName("local"),), (Placement(NodeName("gpu2")),))
    world.save(jobs=[changed])
    for shown in (ann.get(f"{JOBS}/{running}").json(), ann.get(JOBS).json()["jobs"][0]):
        assert (shown["migrations"], shown["migration_seconds"], shown["moving_to"]) == (2, 7.25, ["gpu2"])
    assert world.job(running).move == changed.move
    assert JobId(running) == changed.id
