"""Health, nodes, policy, Prometheus, the OpenAPI document, and limits on what clients send."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from schedulearn.api.http.limits import BodyLimits
from schedulearn.core.domain.errors import StoreError
from schedulearn.core.domain.node import NodeState

V1 = "/api/v1"


@pytest.mark.parametrize(
    ("age", "scheduler"), [(1.0, "running"), (29.0, "running"), (31.0, "absent"), (None, "absent")]
)
def test_health_says_whether_a_scheduler_runs(world: Any, nobody: Any, age: float | None, scheduler: str) -> None:
    world.seen["scheduler"] = None if age is None else world.gateway.now() - age
    body = nobody.get(f"{V1}/health").json()
    assert body["status"] == "ok"
    assert body["scheduler"] == scheduler
    assert body["roles"] == ["api", "scheduler"]
    assert body["time"] == "2027-01-15T08:00:00.000000Z"


def test_nodes_show_what_is_free(world: Any, ann: Any) -> None:
    job = ann.post(f"{V1}/jobs", json={"command": "true", "resources": {"gpus": 1}}).json()["id"]
    world.run(job, "GPU-0")
    world.store.set_setting("storage", {"local": {"jobs_bytes": 5}})
    [node] = ann.get(f"{V1}/nodes").json()["nodes"]
    assert (node["name"], node["executor"], node["state"], node["jobs"]) == ("local", "process", "up", [job])
    assert node["capacity"] == {"cpus": 8, "gpus": 2, "memory": 16e9}
    assert node["reserved"] == {"cpus": 1, "memory": 1e9}
    assert node["free"] == {"cpus": 6, "gpus": 0, "memory": 15e9}
    assert [(d["id"], d["job"], d["outside_use"]) for d in node["devices"]] == [
        ("GPU-0", job, ""),
        ("GPU-1", None, "a display"),
    ]
    assert node["storage"] == {"jobs_bytes": 5}


def test_nodes_and_the_policy_show_who_is_limited_and_where_nobody_can_be(world: Any, ann: Any) -> None:
    [node] = ann.get(f"{V1}/nodes").json()["nodes"]
    assert node["sharing"] is None
    world.save(shares={"local": {"stage": "flowcon", "memory": {}, "limits": {"7": [1.5, 0.25]}, "problem": ""}})
    [node] = ann.get(f"{V1}/nodes").json()["nodes"]
    assert node["sharing"] == {"stage": "flowcon", "limits": {"7": 0.25}, "problem": ""}
    assert ann.get(f"{V1}/policy").json()["sharing_problems"] == {}
    world.save(shares={"local": {"stage": "fair", "memory": {}, "limits": {}, "problem": "no control groups"}})
    [node] = ann.get(f"{V1}/nodes").json()["nodes"]
    assert node["sharing"] == {"stage": "fair", "limits": {}, "problem": "no control groups"}
    assert ann.get(f"{V1}/policy").json()["sharing_problems"] == {"local": "no control groups"}
    world.save(nodes_removed=["local"])
    assert ann.get(f"{V1}/policy").json()["sharing_problems"] == {}, "it went with its node"


def test_draining_is_asked_of_the_scheduler(world: Any, root: Any, problem: Any) -> None:
    answer = root.patch(f"{V1}/nodes/local", json={"drain": True})
    assert (answer.status_code, answer.json()["state"]) == (202, "draining")
    assert world.requests() == [("drain", None, {"node": "local", "drain": True}, "root")]
    problem(root.patch(f"{V1}/nodes/nowhere", json={"drain": True}), 404)
    assert problem(root.patch(f"{V1}/nodes/local", json={"drain": "maybe"}), 422)["field"] == "drain"


def test_the_policy_is_shown_and_set(world: Any, root: Any, problem: Any) -> None:
    shown = root.get(f"{V1}/policy").json()
    assert shown["preset"] == "schedulearn"
    assert shown["stages"]["share"] == "shortest"
    assert {"fifo", "round-robin"} <= shown["available"]["presets"].keys()
    assert shown["fault"] is None
    wanted = {"preset": "fifo", "stages": {"place": "round-robin"}, "params": {"starvation_guard": "1h"}}
    assert root.put(f"{V1}/policy", json=wanted).json()["stages"]["place"] == "round-robin"
    assert world.requests() == [("policy", None, wanted, "root")]
    world.store.set_setting("policy", wanted)
    world.store.set_setting("policy_fault", {"at": 1.0, "error": "boom"})
    shown = root.get(f"{V1}/policy").json()
    assert shown["params"] == {"starvation_guard": "1h"}
    assert shown["fault"] == {"at": "1970-01-01T00:00:01.000000Z", "error": "boom"}


def test_a_policy_that_is_no_longer_there_is_shown_as_a_fault(world: Any, root: Any) -> None:
    world.store.set_setting("policy", {"preset": "gone", "stages": {}, "params": {}})
    shown = root.get(f"{V1}/policy").json()
    assert shown["preset"] == "gone"
    assert "gone" in shown["fault"]["error"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"preset": "fifoo"}, "preset"),
        ({"preset": "fifo", "stages": {"place": "nowhere"}}, "stages.place"),
        ({"preset": "fifo", "params": {"speed": 1}}, "params.speed"),
        ({"preset": "fifo", "stage": {}}, "stage"),
        ({"stages": {}}, "preset"),
        ({"preset": "gandiva-pack"}, "preset"),
        ({"preset": "gandiva", "stages": {"order": "time-slice-packed"}}, "stages.order"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(world: Any, root: Any, problem: Any, body: Any, field: str) -> None:
    assert problem(root.put(f"{V1}/policy", json=body), 422)["field"] == field
    assert world.requests() == []


def test_prometheus(world: Any, ann: Any, job: int) -> None:
    world.save(nodes=[replace(world.store.list_nodes()[0], state=NodeState.DRAINING)])
    answer = ann.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.text.splitlines()
    assert 'schedulearn_jobs{state="queued"} 1.0' in lines
    assert 'schedulearn_jobs{state="failed"} 0.0' in lines
    assert 'schedulearn_node_capacity{node="local",resource="cpus"} 8.0' in lines
    assert 'schedulearn_node_free{node="local",resource="gpus"} 1.0' in lines
    assert 'schedulearn_node_state{node="local",state="draining"} 1.0' in lines
    assert "schedulearn_scheduler_heartbeat_age_seconds 1.0" in lines
    assert "schedulearn_scheduler_up 1.0" in lines
    assert any(line.startswith("schedulearn_events_total ") for line in lines)


# --- errors of every origin have one shape


def test_unknown_paths_and_methods(ann: Any, problem: Any) -> None:
    problem(ann.get("/nothing"), 404)
    problem(ann.get(f"{V1}/jobs/"), 404)
    problem(ann.put(f"{V1}/jobs"), 405)


def test_a_store_that_fails_is_a_503(world: Any, ann: Any, problem: Any, monkeypatch: Any) -> None:
    def broken(*_: Any) -> Any:
        raise StoreError("the disk is full")

    ann.get(f"{V1}/whoami")
    monkeypatch.setattr(world.store, "list_jobs", broken)
    assert problem(ann.get(f"{V1}/jobs"), 503)["detail"] == "the disk is full"


def test_a_bug_is_a_500_that_tells_nothing(world: Any, ann: Any, problem: Any, monkeypatch: Any) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(world.store, "list_jobs", broken)
    assert "secret" not in problem(ann.get(f"{V1}/jobs"), 500)["detail"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"not json", b"\xff\xfe", b"[]", b"null", b'"x"', b"[" * 100_000, b'{"command": "\\ud800"}',
     b'{"command": "x", "priority": 1e999}', b'{"command": "x", "steps": ' + b"9" * 5000 + b"}",
     b'{"a":' * 300 + b"1" + b"}" * 300],
)  # fmt: skip
def test_broken_bodies(ann: Any, body: bytes) -> None:
    answer = ann.post(f"{V1}/jobs", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_body_that_is_too_large(ann: Any, problem: Any) -> None:
    problem(ann.post(f"{V1}/jobs", json={"command": "x", "name": "x" * 10_000_000}), 413)
    pieces = iter([b'{"command": "', b"x" * 2_000_000, b'"}'])  # without a Content-Length
    headers = {"Content-Type": "application/json"}
    problem(ann.post(f"{V1}/jobs", content=pieces, headers=headers), 413)


def test_a_body_that_does_not_arrive_is_a_408() -> None:
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    limited = BodyLimits(app, lambda: 10, lambda token: None, idle=0.01)
    scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
    with pytest.raises(Exception, match="408"):
        asyncio.run(limited(scope, receive, send))


def test_once_the_body_is_there_a_connection_may_be_silent() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert not (await receive())["more_body"]
        waiting = asyncio.ensure_future(receive())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()

    messages = [{"type": "http.request", "body": b"x", "more_body": False}]

    async def receive() -> Any:
        if messages:
            return messages.pop()
        return await asyncio.Event().wait()

    async def send(message: Any) -> None:
        raise AssertionError(message)

    limited = BodyLimits(app, lambda: 10, lambda token: None, idle=0.0001)
    asyncio.run(limited({"type": "http", "method": "POST", "path": "/", "headers": []}, receive, send))


@pytest.mark.parametrize("token", [None, "sl_wrong"])
def test_a_large_body_is_not_read_for_somebody_without_a_token(world: Any, problem: Any, token: str | None) -> None:
    """Whatever it claims to be: thousands of them would fill the memory."""

    def pieces() -> Any:
        taken.append(1)
        yield b"x"

    taken: list[int] = []
    client = world.client(token)
    problem(client.post(f"{V1}/jobs", content=b"x" * 5000), 401)
    problem(client.put(f"{V1}/snapshots/{'0' * 64}", content=b"x" * 5000), 401)
    problem(client.post(f"{V1}/logins/redeem", content=pieces()), 401)  # without a Content-Length
    problem(client.post(f"{V1}/logins/redeem", json={"code": "wrong"}), 401)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", "/jobs", "GET, POST"),
        ("POST", "/jobs/1", "GET, PATCH, DELETE"),
        ("OPTIONS", "/jobs/1", "GET, PATCH, DELETE"),
        ("HEAD", "/health", "GET"),
        ("DELETE", "/users", "GET, POST"),
    ],
)
def test_a_method_that_a_path_has_not_is_told_all_that_it_has(ann: Any, method: str, path: str, allowed: str) -> None:
    answer = ann.request(method, f"{V1}{path}")
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
