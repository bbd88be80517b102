"""A submission with a key makes one job, however often and however close together it is sent."""

import json
import threading
from typing import Any

import pytest

from schedulearn.core.domain.spec import JobSpec
from schedulearn.core.domain.states import JobState

JOBS = "/api/v1/jobs"
SPEC = {"command": "true", "name": "once", "env": {"B": "2", "A": "1"}, "deadline": "3h"}
KEY = {"Idempotency-Key": "5f0c"}


def count(world: Any) -> int:
    return int(world.store.list_jobs()[1])


def test_the_same_once_more_makes_no_second_job(world: Any, ann: Any) -> None:
    first = ann.post(JOBS, json=SPEC, headers=KEY)
    world.gateway._clock = lambda: 1_800_000_500.0  # which moves the deadline: what was asked for is the same
    again = ann.post(JOBS, json=SPEC, headers=KEY)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json()["id"] == first.json()["id"]
    assert again.headers["location"] == first.headers["location"]
    assert again.json()["deadline"] == first.json()["deadline"]
    assert count(world) == 1
    assert len(world.store.requests_after(0)) == 1


def test_a_date_that_has_passed_since_does_not_matter(world: Any, ann: Any) -> None:
    spec = {**SPEC, "deadline": "2027-01-15T09:00:00Z"}
    first = ann.post(JOBS, json=spec, headers=KEY).json()["id"]
    world.gateway._clock = lambda: 1_800_100_000.0
    assert ann.post(JOBS, json=spec, headers=KEY).json()["id"] == first


def test_how_it_was_written_does_not_matter(world: Any, ann: Any) -> None:
    turned = json.dumps(dict(reversed(SPEC.items())), indent=3)
    headers = {**KEY, "Content-Type": "application/json"}
    assert (
        ann.post(JOBS, json=SPEC, headers=KEY).json()["id"]
        == ann.post(JOBS, content=turned, headers=headers).json()["id"]
    )


def test_without_a_key_each_makes_a_job(world: Any, ann: Any) -> None:
    assert ann.post(JOBS, json=SPEC).json()["id"] != ann.post(JOBS, json=SPEC).json()["id"]


def test_another_content_with_the_same_key_is_refused(world: Any, ann: Any, problem: Any) -> None:
    ann.post(JOBS, json=SPEC, headers=KEY)
    refused = problem(ann.post(JOBS, json={**SPEC, "priority": 3}, headers=KEY), 422)
    assert refused["field"] == "Idempotency-Key"
    assert "new key" in refused["allowed"]
    assert count(world) == 1


def test_the_keys_of_others_are_not_in_the_way(world: Any, ann: Any, bob: Any) -> None:
    made = {client.post(JOBS, json=SPEC, headers=KEY).json()["id"] for client in (ann, bob)}
    assert len(made) == 2


def test_what_was_refused_may_be_sent_again_with_its_key(world: Any, ann: Any, problem: Any) -> None:
    spec = {"command": "true", "depends_on": [1]}
    problem(ann.post(JOBS, json=spec, headers=KEY), 422)
    world.store.add_job(JobSpec("a", "true"), "bob", 1.0, "")
    assert ann.post(JOBS, json=spec, headers=KEY).status_code == 201


def test_what_was_taken_is_not_checked_again(world: Any, ann: Any) -> None:
    world.gateway._caps = type(world.gateway._caps)(jobs=2)
    world.store.add_job(JobSpec("a", "true"), "bob", 1.0, "")
    spec = {"command": "true", "depends_on": [1]}
    first = ann.post(JOBS, json=spec, headers=KEY).json()["id"]
    ann.post(JOBS, json=SPEC)
    assert ann.post(JOBS, json=SPEC).status_code == 429
    world.save(forgotten=[1])  # what it depends on
    assert ann.post(JOBS, json=spec, headers=KEY).json()["id"] == first


def test_the_answer_is_the_job_as_it_is_now(world: Any, ann: Any) -> None:
    job = ann.post(JOBS, json=SPEC, headers=KEY).json()["id"]
    world.set_state(job, JobState.SUCCEEDED)
    assert ann.post(JOBS, json=SPEC, headers=KEY).json()["state"] == "succeeded"


def test_one_that_was_deleted_since_is_not_made_again(world: Any, ann: Any, problem: Any) -> None:
    job = ann.post(JOBS, json=SPEC, headers=KEY).json()["id"]
    world.save(forgotten=[job])
    assert f"job {job}" in problem(ann.post(JOBS, json=SPEC, headers=KEY), 409)["detail"]
    assert count(world) == 0


def test_a_check_uses_up_no_key(world: Any, ann: Any) -> None:
    assert ann.post(f"{JOBS}?dry_run=true", json=SPEC, headers=KEY).status_code == 200
    assert ann.post(JOBS, json={**SPEC, "priority": 3}, headers=KEY).status_code == 201


@pytest.mark.parametrize("key", ["", "x" * 201, "a b", "naïve".encode("latin-1"), b"\x7f"])
def test_a_key_is_plain_and_short(world: Any, ann: Any, problem: Any, key: str | bytes) -> None:
    refused = problem(ann.post(JOBS, json=SPEC, headers={"Idempotency-Key": key}), 422)
    assert refused["field"] == "Idempotency-Key"
    assert count(world) == 0


def test_many_at_the_same_time_make_one(world: Any) -> None:
    """All have been checked before the first of them is written."""
    checked, check, found = threading.Barrier(8), world.gateway.check, []
    ann = world.gateway.auth.authenticate("sl_ann")

    def check_all(*given: Any) -> None:
        check(*given)
        checked.wait(60)

    world.gateway.check = check_all
    spec = JobSpec("a", "true")
    threads = [
        threading.Thread(target=lambda: found.append(world.gateway.submit(ann, spec, "key", "d" * 64).job.id))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 8
    assert len(set(found)) == count(world) == 1
