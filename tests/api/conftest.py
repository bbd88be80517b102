"""A real store in a temporary folder, a gateway over it, and clients of every kind of caller."""

import http.client
import socket
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI

from schedulearn.api.app import create_app
from schedulearn.core.control.explain import Explanation
from schedulearn.core.domain.ids import AttemptId, DeviceId, JobId, NodeName, WorkerId
from schedulearn.core.domain.job import Attempt, HistoryEvent, Job, Lease, Worker
from schedulearn.core.domain.node import Device, Node
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.states import JobState
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.service.common.auth import hash_token
from schedulearn.service.gateway.gateway import Gateway
from schedulearn.store import Cycle, Store, open_store
from support.scratch import tmp_path
from support.waiting import wait_until

__all__ = ["tmp_path"]

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # newer starlettes would rather have another HTTP client
    from fastapi.testclient import TestClient

NOW = 1_800_000_000.0
TOKENS = {"root": "sl_root", "ann": "sl_ann", "bob": "sl_bob"}
NODE = Node(
    NodeName("local"),
    capacity=Resources(cpus=8, memory=16e9, gpus=2),
    reserved=Resources(cpus=1, memory=1e9),
    devices=(Device(DeviceId("GPU-0"), model="A100"), Device(DeviceId("GPU-1"), model="T4", outside_use="a display")),
    cpus_per_gpu=1.0,
)


@dataclass
class World:
    """The service as its API sees it, with the scheduler's part played by the test."""

    store: Store
    data: Path
    gateway: Gateway
    app: FastAPI
    fence: int
    wakes: list[None]
    seen: dict[str, float | None]
    _clients: list[TestClient] = field(default_factory=list)

    def client(self, token: str | None) -> TestClient:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        client = TestClient(self.app, headers=headers, raise_server_exceptions=False)
        self._clients.append(client)
        return client

    def save(self, **changes: Any) -> None:
        """What a scheduling cycle would have written."""
        self.store.save_cycle(Cycle(self.fence, **changes))

    def job(self, job: int) -> Job:
        row = self.store.job(JobId(job))
        assert row is not None
        return row.job

    def set_state(self, job: int, state: JobState) -> None:
        changed = self.job(job)
        changed.state = state
        event = HistoryEvent(NOW, "state", f"now {state}", JobId(job), state=state)
        self.save(jobs=[changed], events=[event])

    def run(self, job: int, device: str | None = None, node: NodeName = NODE.name) -> AttemptId:
        """A new attempt with one worker on the node."""
        changed = self.job(job)
        changed.attempt += 1
        changed.state = JobState.RUNNING
        worker = WorkerId(JobId(job), changed.attempt, 0)
        devices = (DeviceId(device),) if device else ()
        attempt = Attempt(worker.of, NOW, [Worker(worker, node, devices, started_at=NOW)])
        lease = Lease(worker, node, Resources(cpus=1, gpus=len(devices)), devices)
        self.save(jobs=[changed], attempts=[attempt], leases_added=[lease])
        return worker.of

    def log_folder(self, attempt: AttemptId, rank: int = 0) -> Path:
        folder = self.data / "jobs" / str(attempt.job) / "attempts" / str(attempt.number) / str(rank) / "log"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def requests(self) -> list[tuple[str, int | None, dict[str, Any], str]]:
        """What the scheduler would be asked to do, submissions left out."""
        found = self.store.requests_after(0)
        return [(r.kind, r.job, r.data, r.by) for r in found if r.kind != "submit"]


@pytest.fixture(scope="session")
def app() -> FastAPI:
    """One for all: an application finds out its routes at its first request, which takes longer than most tests."""
    nobody: Any = None
    return create_app(nobody)


@pytest.fixture(scope="session")
def inhabited(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, int]:
    """A database with its people and one node, made once, and the fence of the scheduler that has written it."""
    folder = tmp_path_factory.mktemp("inhabited")
    with open_store(folder / "schedulearn.db") as store:
        store.add_user("root", "admin")
        store.add_user("ann", "user")
        store.add_user("bob", "user", max_priority=60)
        for user, token in TOKENS.items():
            store.add_token(user, "test", hash_token(token), NOW)
        fence = store.take_role("scheduler", "test", NOW, 30.0)
        store.save_cycle(Cycle(fence, nodes=[NODE]))
        store.backup(folder / "copy.db")
    return (folder / "copy.db").read_bytes(), fence


@pytest.fixture
def world(tmp_path: Path, app: FastAPI, inhabited: tuple[bytes, int]) -> Iterator[World]:
    database, fence = inhabited
    (tmp_path / "schedulearn.db").write_bytes(database)
    store = open_store(tmp_path / "schedulearn.db")
    wakes: list[None] = []
    seen: dict[str, float | None] = {"scheduler": NOW - 1}
    gateway = Gateway(
        store,
        tmp_path,
        lambda: wakes.append(None),
        lambda job: Explanation("It needs 1 core on one node.", 1, Estimate(1.0, 2.0, 3.0), "place"),
        scheduler_seen=lambda: seen["scheduler"],
        waiting=lambda count: [],
        clock=lambda: NOW,
    )
    gateway.uploads.limit = 100_000
    gateway.servers._patience = 60.0  # nobody looks at servers here, unless a test does
    app.state.gateway = gateway
    yield World(store, tmp_path, gateway, app, fence, wakes, seen)
    gateway.close()
    store.close()


@pytest.fixture
def root(world: World) -> TestClient:
    return world.client(TOKENS["root"])


@pytest.fixture
def ann(world: World) -> TestClient:
    return world.client(TOKENS["ann"])


@pytest.fixture
def bob(world: World) -> TestClient:
    return world.client(TOKENS["bob"])


@pytest.fixture
def nobody(world: World) -> TestClient:
    return world.client(None)


@pytest.fixture
def job(ann: TestClient) -> int:
    """A queued job of ann's."""
    answer = ann.post("/api/v1/jobs", json={"command": "python train.py", "env": {"SECRET": "s3cret"}})
    assert answer.status_code == 201, answer.text
    return int(answer.json()["id"])


def is_problem(answer: Any, status: int) -> dict[str, Any]:
    """The answer is this error, in the shape that all errors have."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert {"type", "title", "status", "detail"} <= body.keys()
    assert body["status"] == status
    assert body["detail"]
    return body


@pytest.fixture
def problem() -> Any:
    return is_problem


@dataclass(frozen=True)
class Live:
    """The same API behind a real server: a test client only sees streams once they have ended."""

    host: str
    port: int
    streams: list[http.client.HTTPResponse] = field(default_factory=list)

    def get(self, path: str, token: str = TOKENS["ann"], **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}", "Connection": "close", **headers})
        self.streams.append(connection.getresponse())
        return self.streams[-1]


@pytest.fixture
def live(world: World) -> Iterator[Live]:
    config = uvicorn.Config(world.app, port=0, log_level="error", timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    wait_until(lambda: server.started)
    live = Live("127.0.0.1", listening.getsockname()[1])
    yield live
    world.gateway.close()
    server.should_exit = True
    thread.join(60)
    listening.close()
    for stream in live.streams:
        stream.close()
    assert not thread.is_alive(), "open streams must not keep the service from stopping"


@pytest.fixture
def eventually() -> Any:
    return wait_until
