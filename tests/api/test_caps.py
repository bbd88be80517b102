"""What one user may have at the most: refused with what is allowed, and nothing changed."""

from typing import Any

import pytest

from schedulearn.core.domain.states import JobState
from schedulearn.service.common.config import Caps
from schedulearn.service.gateway import gateway
from schedulearn.service.upkeep.housekeeping import DISK

V1 = "/api/v1"
JOB = {"command": "true"}


@pytest.fixture
def capped(world: Any) -> Any:
    world.gateway._caps = Caps(jobs=3, disk=1000)
    world.gateway.accounts._most_tokens = 4
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


def test_the_specs_of_unfinished_jobs(world: Any, ann: Any, bob: Any, problem: Any) -> None:
    """They are kept in memory. Without this, some thousand jobs of a megabyte each would have taken all of it."""
    world.gateway._caps = Caps(specs=250_000)
    long = {"command": "true", "env": {"A": "x" * 90_000}}
    made = [ann.post(f"{V1}/jobs", json=long).json()["id"] for _ in range(2)]
    refused = problem(ann.post(f"{V1}/jobs", json=long), 429)
    assert "at most 250,000 characters" in refused["allowed"]
    assert [ann.post(f"{V1}/jobs", json=JOB).status_code for _ in range(3)] == [201] * 3
    assert bob.post(f"{V1}/jobs", json=long).status_code == 201
    world.set_state(made[0], JobState.SUCCEEDED)
    assert ann.post(f"{V1}/jobs", json=long).status_code == 201
    problem(ann.post(f"{V1}/jobs", json=long), 429)


def test_all_texts_of_a_job(ann: Any, problem: Any) -> None:
    most = {"command": "x" * 50_000, "env": {f"{n:03}": "x" * 997 for n in range(150)}}
    assert ann.post(f"{V1}/jobs", json=most).status_code == 201
    told = problem(ann.post(f"{V1}/jobs", json={**most, "env": {**most["env"], "A": ""}}), 422)
    assert (told["field"], told["allowed"]) == ("env", "at most 200,000 characters; put large things into files")


def test_a_page_of_jobs_has_room_for_so_much_text(ann: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many were asked for; nothing is left out between two pages."""
    monkeypatch.setattr(gateway, "MOST_TEXT", 5_000)
    sizes = [100, 3_000, 100, 9_000, 100, 100]
    made = [ann.post(f"{V1}/jobs", json={"command": "x" * size}).json()["id"] for size in sizes]
    pages: list[list[int]] = []
    seen: list[int] = []
    while len(seen) < len(made):
        page = ann.get(f"{V1}/jobs", params={"limit": 10_000, "offset": len(seen)}).json()
        assert page["total"] == len(made)
        pages.append([job["id"] for job in page["jobs"]])
        seen += pages[-1]
    assert seen == made
    assert 3 <= len(pages) <= 5
    assert [made[3]] in pages, "what is too long for any page has one of its own"


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
