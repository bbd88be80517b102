"""The rendezvous over HTTP: who may come, what is refused, and real workers that hang up."""

import http.client
import json
import threading
from typing import Any

import pytest

from schedulearn.service.common.auth import hash_token

V1 = "/api/v1"


@pytest.fixture
def own(world: Any, job: int) -> Any:
    """A client with the token of the job's attempt."""
    attempt = world.run(job)
    world.store.add_token("ann", "attempt", hash_token("sl_job"), 0.0, attempt)
    return world.client("sl_job")


def ask(job: int, **changes: Any) -> dict[str, Any]:
    body = {"worker": f"{job}.1.0", "generation": 3, "members": [0, 2], "step": 5, "wait": 0}
    return {**body, **changes}


def test_a_group_of_one_is_formed_at_once(own: Any, job: int) -> None:
    answer = own.post(f"{V1}/attempts/{job}.1/group", json=ask(job, members=[0])).json()
    name = answer.pop("group")
    assert name.startswith("3.")
    assert answer == {
        "generation": 3, "rank": 0, "size": 1, "newest": 0, "differ": False, "missing": [], "over": False
    }  # fmt: skip
    keys = f"{V1}/attempts/{job}.1/groups/{name}/keys"
    assert own.post(f"{keys}/set", json={"key": "0/1", "value": "eA=="}).status_code == 204
    assert own.post(f"{keys}/get", json={"keys": ["0/1", "0/2"]}).json() == {"values": {"0/1": "eA=="}}
    assert own.post(f"{keys}/add", json={"key": "n", "amount": 3}).json() == {"value": 3}


def test_who_is_missing_is_told(own: Any, job: int) -> None:
    answer = own.post(f"{V1}/attempts/{job}.1/group", json=ask(job)).json()
    assert (answer["group"], answer["missing"]) == (None, [2])
    assert own.get(f"{V1}/attempts/{job}.1/group").json() == {"generation": 3, "waiting": []}
    old = own.post(f"{V1}/attempts/{job}.1/group", json=ask(job, generation=2)).json()
    assert (old["group"], old["generation"]) == (None, 3)


def test_after_the_end_there_are_no_groups(own: Any, job: int) -> None:
    assert own.delete(f"{V1}/attempts/{job}.1/group").status_code == 204
    assert own.post(f"{V1}/attempts/{job}.1/group", json=ask(job, members=[0])).json()["over"] is True


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"worker": "999.1.0"}, "worker"),
        ({"worker": "x"}, "worker"),
        ({"members": [1, 2]}, "members"),
        ({"members": [2, 0]}, "members"),
        ({"members": [0, 0]}, "members"),
        ({"members": []}, "members"),
        ({"members": list(range(1001))}, "members"),
        ({"generation": -1}, "generation"),
        ({"generation": "3"}, "generation"),
        ({"step": -2}, "step"),
        ({"wait": 3600}, "wait"),
        ({"wait": float("1e300")}, "wait"),
        ({"steps": 5}, "steps"),
    ],
)
def test_a_wrong_request_is_refused_in_words(
    own: Any, job: int, problem: Any, changes: dict[str, Any], field: str
) -> None:
    body = problem(own.post(f"{V1}/attempts/{job}.1/group", json=ask(job, **changes)), 422)
    assert body["field"].startswith(field)
    assert body["allowed"] or "is not a whole number" in body["detail"]
    assert own.get(f"{V1}/attempts/{job}.1/group").json() == {"generation": -1, "waiting": []}


@pytest.mark.parametrize(
    ("verb", "body", "status", "field"),
    [
        ("set", {"key": "k" * 301, "value": "x"}, 422, "key"),
        ("set", {"key": "", "value": "x"}, 422, "key"),
        ("set", {"key": "k", "value": "x" * 500_001}, 422, "value"),
        ("set", {"key": "k", "value": "x" * 1_000_001}, 413, None),
        ("get", {"keys": ["k"] * 1001}, 422, "keys"),
        ("get", {"keys": ["k"], "wait": 21}, 422, "wait"),
        ("add", {"key": "k", "amount": 2**40}, 422, "amount"),
        ("add", {"key": "k", "amount": 1.5}, 422, "amount"),
    ],
)
def test_keys_and_values_are_bounded(
    own: Any, job: int, problem: Any, verb: str, body: dict[str, Any], status: int, field: str | None
) -> None:
    name = own.post(f"{V1}/attempts/{job}.1/group", json=ask(job, members=[0])).json()["group"]
    answer = problem(own.post(f"{V1}/attempts/{job}.1/groups/{name}/keys/{verb}", json=body), status)
    assert answer.get("field") == field


def test_only_the_present_attempt_may_come(world: Any, own: Any, job: int, problem: Any, ann: Any) -> None:
    second = world.run(job)
    world.store.add_token("ann", "attempt", hash_token("sl_second"), 0.0, second)
    other = ann.post("/api/v1/jobs", json={"command": "true"}).json()["id"]
    world.store.add_token("ann", "attempt", hash_token("sl_other"), 0.0, world.run(other))
    body = {"worker": f"{second}.0", "generation": 0, "members": [0], "step": 0, "wait": 0}
    path = f"{V1}/attempts/{second}/group"
    for token in ("sl_job", "sl_other", "sl_ann", "sl_root"):
        problem(world.client(token).post(path, json=body), 403)
    problem(world.client(None).post(path, json=body), 401)
    assert world.client("sl_second").post(path, json=body).json()["group"]


def test_workers_meet_and_one_that_hangs_up_does_not_count(
    live: Any, world: Any, own: Any, job: int, eventually: Any
) -> None:
    def send(rank: int) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(live.host, live.port, timeout=60)
        headers = {"Authorization": "Bearer sl_job", "Content-Type": "application/json"}
        body = json.dumps(ask(job, worker=f"{job}.1.{rank}", wait=20, step=rank))
        connection.request("POST", f"{V1}/attempts/{job}.1/group", body, headers)
        return connection

    def waiting() -> list[int]:
        found: list[int] = json.loads(live.get(f"{V1}/attempts/{job}.1/group", "sl_job").read())["waiting"]
        return found

    gone = send(0)
    eventually(lambda: waiting() == [0])
    gone.close()
    eventually(lambda: waiting() == [])
    connections = [send(0), send(2)]
    answers: list[Any] = [None, None]

    def receive(place: int) -> None:
        answers[place] = json.loads(connections[place].getresponse().read())
        connections[place].close()

    threads = [threading.Thread(target=receive, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers[0]["group"] == answers[1]["group"] is not None
    assert [(a["rank"], a["size"], a["newest"], a["differ"]) for a in answers] == [(0, 2, 1, True), (1, 2, 1, True)]
