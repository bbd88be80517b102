"""What one user may have at the most: refused with what is allowed, and nothing changed."""

from typing import Any

import pytest

from schedulearn.domain.states import JobState
from schedulearn.service.config import Caps
from schedulearn.service.housekeeping import DISK

V1 = "/api/v1"
JOB = {"command": "true"}


@pytest.fixture
def capped(world: Any) -> Any:
    world.gateway._caps = Caps(jobs=3, disk=1000)
    world.gateway.people._most_tokens = 4
    return world


def test_unfinished_jobs(capped: Any, ann: Any, bob: Any, problem: Any) -> None:
    made = [ann.post(f"{V1}/jobs", json=JOB).json()["id"] for _ in range(3)]
    refused = problem(ann.post(f"{V1}/jobs", json=JOB), 429)
    assert refused["type"] == "urn:schedulearn:problem:over-limit"
    assert "at most 3" in refused["allowed"]
    assert "3 unfinished jobs" in refused["detail"]
    assert capped.store.list_jobs()[1] == 3
    assert bob.post(f"{V1}/jobs", json=JOB).status_code == 201
    capped.set_state(made[0], JobState.SUCCEEDED)
    assert ann.post(f"{V1}/jobs", json=JOB).status_code == 201
    problem(ann.post(f"{V1}/jobs", json=JOB), 429)


def test_disk(capped: Any, ann: Any, bob: Any, problem: Any) -> None:
    owner = capped.store.user("ann").id
    capped.store.set_setting(DISK, {str(owner): 1000})
    assert ann.post(f"{V1}/jobs", json=JOB).status_code == 201
    capped.store.set_setting(DISK, {str(owner): 1001})
    for dry in ("", "?dry_run=true"):
        assert "at most 1 kB" in problem(ann.post(f"{V1}/jobs{dry}", json=JOB), 429)["allowed"]
    assert bob.post(f"{V1}/jobs", json=JOB).status_code == 201


def test_tokens(capped: Any, ann: Any, root: Any, problem: Any) -> None:
    for _ in range(3):
        assert ann.post(f"{V1}/tokens", json={}).status_code == 201
    problem(ann.post(f"{V1}/tokens", json={}), 429)
    problem(root.post(f"{V1}/tokens", json={"user": "ann"}), 429)
    last = ann.get(f"{V1}/tokens").json()["tokens"][-1]["id"]
    ann.delete(f"{V1}/tokens/{last}")
    assert ann.post(f"{V1}/tokens", json={}).status_code == 201


def test_nothing_is_capped_with_0(world: Any, ann: Any) -> None:
    world.gateway._caps = Caps(jobs=0, snapshots=0, disk=0)
    world.store.set_setting(DISK, {str(world.store.user("ann").id): 10**15})
    assert ann.post(f"{V1}/jobs", json=JOB).status_code == 201
