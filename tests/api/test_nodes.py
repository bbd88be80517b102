"""Servers over the API: added as the scheduler finds them, changed, removed. The test plays the scheduler."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from schedulearn.core.domain.ids import DeviceId, NodeName
from schedulearn.core.domain.job import HistoryEvent
from schedulearn.core.domain.node import Device, Node, NodeState
from schedulearn.core.domain.resources import Resources
from support.waiting import wait_until

V1 = "/api/v1"
GPU2 = Node(
    NodeName("gpu2"),
    "docker",
    Resources(cpus=16, memory=64e9, gpus=1),
    devices=(Device(DeviceId("GPU-7")),),
    labels=(("room", "b12"),),
    address="ssh://ann@gpu2",
    default_image="pytorch/pytorch",
    engine="X:1",
    version="Docker 28.0.1",
)


@pytest.fixture
def answer(world: Any) -> Iterator[Callable[..., None]]:
    """What the scheduler will say to the next request for a node."""
    threads = []

    def play(problems: list[Any], notes: list[str], added: Node) -> None:
        asked = wait_until(lambda: [r for r in world.store.requests_after(0) if r.kind == "node_add"])[0]
        data: dict[str, Any] = {"request": asked.data["request"], "notes": notes}
        if problems:
            data["problems"] = [{"field": field, "problem": problem} for field, problem in problems]
        event = HistoryEvent(1.0, "node_refused" if problems else "node_added", "", data=data)
        world.save(nodes=[] if problems else [added], events=[event])

    def expect(*problems: tuple[str, str], notes: tuple[str, ...] = (), added: Node = GPU2) -> None:
        threads.append(threading.Thread(target=play, args=(list(problems), list(notes), added)))
        threads[-1].start()

    yield expect
    for thread in threads:
        thread.join(60)


def only_request(world: Any) -> dict[str, Any]:
    [(kind, _, data, by)] = world.requests()
    assert (kind, by) == ("node_add", "root")
    assert data.pop("request")
    return dict(data)


def test_a_server_is_added_once_the_scheduler_has_looked_at_it(world: Any, root: Any, answer: Any) -> None:
    answer(notes=("its clock is 1 h ahead",))
    body = {"address": "ssh://ann@gpu2", "image": "pytorch/pytorch", "gpu_type": "A100", "labels": {"room": "b12"}}
    got = root.post(f"{V1}/nodes", json=body)
    assert got.status_code == 201, got.text
    node = got.json()
    assert (node["name"], node["executor"], node["state"]) == ("gpu2", "docker", "up")
    assert (node["address"], node["version"]) == ("ssh://ann@gpu2", "Docker 28.0.1")
    assert (node["default_image"], node["labels"]) == ("pytorch/pytorch", {"room": "b12"})
    assert node["notes"] == ["its clock is 1 h ahead"]
    assert only_request(world) == {
        "name": "gpu2",
        "address": "ssh://ann@gpu2",
        "image": "pytorch/pytorch",
        "labels": [["gpu-type", "A100"], ["room", "b12"]],
    }
    assert {n["name"] for n in root.get(f"{V1}/nodes").json()["nodes"]} == {"local", "gpu2"}


def test_a_server_that_cannot_be_used_is_refused_with_the_reason(root: Any, answer: Any, problem: Any) -> None:
    answer(("address", "nothing listens at tcp://gpu2:2376"), ("image", "no such image"))
    body = problem(root.post(f"{V1}/nodes", json={"address": "tcp://gpu2"}), 422)
    assert body["field"] == "address"
    assert "nothing listens" in body["detail"]
    assert "no such image" in body["detail"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "address"),
        ({"address": "gpu2"}, "address"),
        ({"address": "ssh://ann:secret@gpu2"}, "address"),
        ({"address": "tcp://[fe80::1]"}, "name"),
        ({"address": "ssh://gpu2", "name": "two words"}, "name"),
        ({"address": "ssh://gpu2", "name": "local-docker"}, "name"),
        ({"address": "ssh://gpu2", "labels": {"Room": "1"}}, "labels"),
        ({"address": "ssh://gpu2", "labels": {"room": "a\nb"}}, "labels.room"),
        ({"address": "ssh://gpu2", "labels": {f"l{i}": "" for i in range(40)}}, "labels"),
        ({"address": "ssh://gpu2", "image": ""}, "image"),
        ({"address": "ssh://gpu2", "image": "../containers"}, "image"),
        ({"address": "ssh://gpu2", "gpus": 1}, "gpus"),
    ],
)
def test_what_could_never_be_added_is_not_even_asked_for(
    world: Any, root: Any, problem: Any, body: Any, field: str
) -> None:
    assert problem(root.post(f"{V1}/nodes", json=body), 422)["field"] == field
    assert world.requests() == []


def test_a_name_that_is_taken_and_a_scheduler_that_is_away(world: Any, root: Any, problem: Any) -> None:
    world.save(nodes=[GPU2])
    assert "a node gpu2 already" in problem(root.post(f"{V1}/nodes", json={"address": "ssh://gpu2"}), 409)["detail"]
    world.seen["scheduler"] = None
    words = problem(root.post(f"{V1}/nodes", json={"address": "ssh://gpu3"}), 409)["detail"]
    assert "no scheduler runs" in words
    assert world.requests() == []


def test_a_scheduler_that_never_answers(world: Any, root: Any, problem: Any) -> None:
    world.gateway.servers._patience = 0.1
    assert "not looked at" in problem(root.post(f"{V1}/nodes", json={"address": "ssh://gpu3"}), 409)["detail"]


def test_labels_are_set_and_taken_away(world: Any, root: Any, problem: Any) -> None:
    world.save(nodes=[GPU2])
    got = root.patch(f"{V1}/nodes/gpu2", json={"labels": {"gpu-type": "A100", "room": None}})
    assert (got.status_code, got.json()["labels"]) == (202, {"gpu-type": "A100"})
    assert got.json()["devices"][0]["model"] == "A100"
    assert world.requests() == [("node_labels", None, {"node": "gpu2", "labels": [["gpu-type", "A100"]]}, "root")]
    assert problem(root.patch(f"{V1}/nodes/gpu2", json={"labels": {"": "x"}}), 422)["field"] == "labels"
    problem(root.patch(f"{V1}/nodes/nowhere", json={"labels": {}}), 404)


def test_a_server_is_removed_unless_jobs_run_there(world: Any, root: Any, ann: Any, problem: Any) -> None:
    world.save(nodes=[GPU2])
    got = root.delete(f"{V1}/nodes/gpu2")
    assert (got.status_code, got.json()["state"]) == (202, "removing")
    assert world.requests() == [("node_remove", None, {"node": "gpu2", "force": False}, "root")]
    problem(root.delete(f"{V1}/nodes/nowhere"), 404)
    assert "--executor" in problem(root.delete(f"{V1}/nodes/local?force=true"), 409)["detail"]


def test_a_busy_server_is_removed_by_force_alone(world: Any, root: Any, job: int, problem: Any) -> None:
    world.save(nodes=[GPU2])
    world.run(job, node=GPU2.name)
    words = problem(root.delete(f"{V1}/nodes/gpu2"), 409)["detail"]
    assert f"({job})" in words
    assert "drain" in words
    assert root.delete(f"{V1}/nodes/gpu2?force=true").status_code == 202
    assert world.requests() == [("node_remove", None, {"node": "gpu2", "force": True}, "root")]


def test_a_lost_server_says_why_and_since_when(world: Any, ann: Any, root: Any, job: int) -> None:
    lost = replace(GPU2, state=NodeState.LOST, lost_at=1_700_000_000.0, problem="it is frozen")
    world.save(nodes=[lost])
    world.run(job, node=GPU2.name)
    node = next(n for n in ann.get(f"{V1}/nodes").json()["nodes"] if n["name"] == "gpu2")
    assert (node["state"], node["problem"], node["lost_at"]) == ("lost", "it is frozen", "2023-11-14T22:13:20.000000Z")
    assert node["leased"] == {"cpus": 1, "gpus": 0, "memory": 0}
    assert node["free"]["cpus"] == 15
    assert root.patch(f"{V1}/nodes/gpu2", json={"drain": True}).json()["state"] == "lost"


# --- jobs that want containers


def test_a_job_that_wants_a_container_needs_a_server(world: Any, ann: Any, problem: Any) -> None:
    wanted = {"command": "true", "image": "python"}
    assert problem(ann.post(f"{V1}/jobs", json=wanted), 422)["field"] == "image"
    world.save(nodes=[GPU2])
    assert ann.post(f"{V1}/jobs", json=wanted).status_code == 201


def test_a_job_without_an_image_needs_a_default_image(world: Any, ann: Any, problem: Any) -> None:
    world.save(nodes=[replace(GPU2, default_image="")], nodes_removed=[NodeName("local")])
    assert problem(ann.post(f"{V1}/jobs", json={"command": "true"}), 422)["field"] == "image"
    assert ann.post(f"{V1}/jobs", json={"command": "true", "image": "python"}).status_code == 201
    for wrong in ("../containers", "a/../../containers", "python?x", "Python", "a b", "a" * 300):
        refused = problem(ann.post(f"{V1}/jobs", json={"command": "true", "image": wrong}), 422)
        assert refused["field"] == "image", wrong


@pytest.mark.parametrize(
    ("mount", "taken"),
    [("/data", True), ("/data/mnist:/mnt", True), ("/data:/mnt:rw", False), ("/scratch:/mnt:rw", True),
     ("/etc", False), ("/database", False), ("/data/../etc", False), ("/var/run", False)],
)  # fmt: skip
def test_mounts_are_below_what_the_administrator_allows(
    world: Any, ann: Any, problem: Any, mount: str, taken: bool
) -> None:
    world.save(nodes=[GPU2])
    world.store.set_setting("allow_mounts", ["/data", "/scratch:rw"])
    got = ann.post(f"{V1}/jobs", json={"command": "true", "mounts": [mount]})
    if taken:
        assert got.status_code == 201, got.text
    else:
        assert problem(got, 422)["field"] == "mounts"
