"""The real application in this process: the API over HTTP, a store in SQLite, the scheduler; workers do as a test says.

The scheduler takes its turns when the API wakes it, before the API answers: nobody has to wait for it.
"""

import json
import socket
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import uvicorn
from starlette.types import Message, Receive, Scope, Send

from schedulearn.api.app import create_app
from schedulearn.core.domain.events import Event, NodeProbed
from schedulearn.core.domain.ids import DeviceId, JobId, NodeName, WorkerId
from schedulearn.core.domain.node import Device, Node, NodeState
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.usage import Usage
from schedulearn.executors.common.paths import JobPaths, WorkerPaths
from schedulearn.service.common.auth import hash_token
from schedulearn.service.common.config import DataFolder
from schedulearn.service.gateway.explainer import Explainer
from schedulearn.service.gateway.gateway import Gateway
from schedulearn.store import Cycle, Point, Request, UsageSample, open_store
from support.builders import OK, spec
from support.clock import HandClock
from support.scheduling import Bench
from support.waiting import wait_until

NOW = 1_772_359_200.0  # 2026-03-01, 10:00
FIRST = 17  # the number of the first job
TOKENS = {"ann": "sl_ann", "bob": "sl_bob"}  # an administrator's and a user's
STOPPED = Outcome(Ending.SIGNALLED, signal=15)
LOCAL = Node(
    NodeName("local"),
    capacity=Resources(cpus=8, memory=16e9, gpus=1),
    reserved=Resources(cpus=1, memory=1e9),
    devices=(Device(DeviceId("GPU-1"), model="A100", memory=40 * 10**9),),
)
GPU2 = Node(
    NodeName("gpu2"),
    "docker",
    Resources(cpus=8, memory=16e9),
    labels=(("room", "b12"),),
    address="ssh://ann@gpu2",
    default_image="pytorch/pytorch",
    version="Docker 28.0.1",
)


@dataclass
class Asked:
    """What the API was asked."""

    method: str
    path: str  # without the API's prefix
    query: dict[str, list[str]]
    key: str | None
    raw: bytes = b""

    @property
    def body(self) -> Any:
        return json.loads(self.raw)


class Api:
    """A server for all tests of this process: an application finds out its routes but once. It notes what is asked."""

    def __init__(self) -> None:
        nobody: Any = None
        self.app = create_app(nobody)
        self.asked: list[Asked] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._server = uvicorn.Server(uvicorn.Config(self._note, interface="asgi3", log_level="error"))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})
        self._thread.start()
        wait_until(lambda: self._server.started, 60, "the API listens")

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    async def _note(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        key = dict(scope["headers"]).get(b"idempotency-key")
        path = scope["path"].removeprefix("/api/v1")
        asked = Asked(scope["method"], path, parse_qs(scope["query_string"].decode()), key.decode() if key else None)
        self.asked.append(asked)

        async def heard() -> Message:
            message = await receive()
            asked.raw += message.get("body", b"")
            return message

        await self.app(scope, heard, send)


@dataclass(frozen=True)
class Snapshot:
    """What an application is begun with."""

    database: bytes
    at: float


class Application:
    def __init__(self, api: Api, root: Path, begun: Snapshot) -> None:
        self.folder, self.clock = DataFolder(root), HandClock(begun.at)
        root.mkdir()
        self.folder.database.write_bytes(begun.database)
        self.store = open_store(self.folder.database)
        explainer = Explainer(self.store, self.clock)
        self.gateway = Gateway(
            self.store,
            root,
            self.turn,
            explainer.explain,
            waiting=explainer.waiting,
            scheduler_seen=self.clock.now,
            clock=self.clock.now,
        )
        self.url, self.requests, self._api = api.url, api.asked, api
        self.output = b""  # of workers that start
        self.ending: Outcome | None = None  # of workers that start, at once; None: they run on
        self.meanwhile: Callable[[], object] | None = None  # what happens just before the scheduler's next turn
        self.stubborn = False  # whether workers that are told to stop take their time
        self.probed = NodeProbed(0.0, GPU2.name, GPU2, "", "")  # what is found of a server that is to be added
        self._lock = threading.Lock()

    def serve(self) -> None:
        """From now on the API speaks for this one, as if nothing had been asked yet."""
        self._api.app.state.gateway = self.gateway
        self.requests.clear()

    def close(self) -> None:
        self.gateway.close()
        self.store.close()

    def kept(self) -> Snapshot:
        copy = self.folder.root / "copy.db"
        self.store.backup(copy)
        return Snapshot(copy.read_bytes(), self.clock.now())

    # --- what was asked

    def asked(self, method: str, path: str) -> list[Asked]:
        return [one for one in self.requests if (one.method, one.path) == (method, path)]

    def submitted(self) -> dict[str, Any]:
        """The body of the one submission, without what depends on the machine."""
        (asked,) = self.asked("POST", "/jobs")
        body = asked.body
        env = {name: value for name, value in body.pop("env", {}).items() if name not in ("PATH", "VIRTUAL_ENV")}
        return {**body, "env": env}

    # --- what happens

    def submit(self, count: int = 1, **fields: Any) -> int:
        """A job of ann's, taken up by the scheduler. `count`: so many of them at once; the number of the last."""
        for _ in range(count):
            name = fields.get("name", f"mnist-{self._next()}")
            job = self.store.add_job(spec(**{**fields, "name": name}), "ann", self.clock.now(), "submitted by ann")
        self.turn()
        return job

    def copies(self, job: int, count: int) -> None:
        """So many more like it, all at once: for tests of long lists."""
        with sqlite3.connect(self.folder.database) as database:
            columns = [row[1] for row in database.execute("PRAGMA table_info(jobs)") if row[1] != "id"]
            names = ", ".join(columns)
            numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) "
            database.execute(f"{numbers} INSERT INTO jobs ({names}) SELECT {names} FROM jobs, n WHERE id = {job}")
        database.close()

    def end(self, job: int, outcome: Outcome = OK) -> None:
        for place in self.store.job(JobId(job)).placement:  # type: ignore[union-attr]
            self.bench.exited(str(self.worker(job, place.rank)), outcome)
        self.turn()

    def change(self, job: int, **fields: Any) -> None:
        """What took a scheduler long is said in a word."""
        row = self.store.job(JobId(job))
        assert row
        for name, value in fields.items():
            setattr(row.job, name, value)
        self.save(jobs=[row.job])

    def rename(self, job: int, name: str) -> None:
        """As if it had been submitted under this name."""
        with sqlite3.connect(self.folder.database) as database:
            for where in ("name = ?", "spec = json_set(spec, '$.name', ?)"):
                database.execute(f"UPDATE jobs SET {where} WHERE id = ?", (name, job))
        database.close()

    def report(self, job: int, *values: float, name: str = "loss") -> None:
        """A value each minute, the last one now."""
        first = self.clock.now() - 60 * (len(values) - 1)
        points = [Point(n + 1, first + 60 * n, 24 * (n + 1), name, value) for n, value in enumerate(values)]
        self.store.add_points(JobId(job), self.worker(job).attempt, 0, "report", points)

    def use(self, job: int, look: Usage, cpus: float | None = None, rank: int = 0) -> None:
        self.store.add_usage([UsageSample(self.worker(job, rank), look, cpus)])

    def write(self, job: int, output: bytes, rank: int = 0) -> None:
        """What the job prints."""
        folder = WorkerPaths.of(self.folder.root, self.worker(job, rank)).log
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "000000000000000.log").write_bytes(output)

    def make_files(self, job: int, files: dict[str, bytes]) -> None:
        """What the job leaves in its folder."""
        for name, content in files.items():
            path = JobPaths.of(self.folder.root, JobId(job)).run / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def set_node(self, node: Node) -> None:
        """It is there, as this says, and the scheduler has found it."""
        self.has(node)
        self.turn()

    def has(self, node: Node) -> None:
        """The scheduler finds out in its next turn."""
        self.bench.executor.has = [*(one for one in self.bench.executor.has if one.name != node.name), node]
        self.clock.pass_time(20)

    def lose(self, name: str, problem: str = "it is frozen") -> None:
        """It answers no longer."""
        (node,) = (one for one in self.store.list_nodes() if one.name == name)
        self.has(replace(node, state=NodeState.LOST, lost_at=self.clock.now(), problem=problem))

    def save(self, **changes: Any) -> None:
        """What a turn of the scheduler's, or of one of its loops, would have written."""
        self.store.save_cycle(Cycle(self.bench.lease.fence, **changes))

    def worker(self, job: int, rank: int = 0) -> WorkerId:
        row = self.store.job(JobId(job))
        assert row, f"there is no job {job}"
        return WorkerId(JobId(job), row.job.attempt, rank)

    # --- the scheduler

    @cached_property
    def bench(self) -> Bench:
        """Begun by the first test that needs it: others only read."""
        return Bench(self.store, self.folder, self.clock, *self.store.list_nodes(), node_manager=_Servers(self))

    def turn(self) -> None:
        """The scheduler deals with all that was asked, and with what follows from it."""
        with self._lock:
            happens, self.meanwhile = self.meanwhile, None
            if happens:
                happens()
            told = self.bench.cycle()
            while told:
                for what, *rest in told:
                    self._obey(str(what), *rest)
                told = self.bench.cycle()

    def _obey(self, what: str, *rest: Any) -> None:
        executor, now = self.bench.executor, self.clock.now()
        if what == "start":
            self.write(WorkerId.parse(rest[0]).job, self.output)
            executor.started(rest[0], now)
            if self.ending:
                executor.exited(rest[0], now, self.ending)
        elif what == "stop" and not self.stubborn:
            executor.exited(rest[0], now, STOPPED)
        elif what == "pause":
            executor.paused(rest[0], now)
        elif what == "examine":
            executor.sink(rest[0])

    def _next(self) -> int:
        newest, _ = self.store.list_jobs(None, descending=True, limit=1)
        return newest[0].job.id + 1 if newest else FIRST


class _Servers:
    """In the place of the node manager: a server is found as the test says."""

    def __init__(self, application: Application) -> None:
        self._application = application

    def ensure(self, saved: Iterable[Node], busy: Collection[NodeName]) -> list[Event]:
        return []

    def add(self, node: Node, seen: Node | None = None) -> None:
        self._executor.has.append(seen or node)

    def remove(self, name: NodeName) -> None:
        self._executor.has = [node for node in self._executor.has if node.name != name]

    def examine(self, request: Request) -> None:
        asked, found = request.data, self._application.probed
        labels = tuple((str(key), str(value)) for key, value in asked["labels"])
        node = found.node and replace(found.node, name=NodeName(asked["name"]), address=asked["address"])
        node = node and replace(node, default_image=asked["image"]).labelled(labels)
        answer = replace(found, name=NodeName(asked["name"]), node=node, by=request.by, request=asked["request"])
        self._executor.calls.append(("examine", answer))  # the answer comes later

    @property
    def _executor(self) -> Any:
        return self._application.bench.executor


def peopled(folder: Path) -> Snapshot:
    """People and nodes, and no job yet."""
    with open_store(folder / "new.db") as store:
        store.add_user("ann", "admin", max_priority=70)
        store.add_user("bob", "user")
        for user, token in TOKENS.items():
            store.add_token(user, "laptop", hash_token(token), NOW)
        fence = store.take_role("scheduler", "nobody", NOW, 1.0)
        store.save_cycle(Cycle(fence, nodes=[LOCAL, GPU2]))
        store.set_setting("policy", {"preset": "fifo", "stages": {}, "params": {}})
        store.backup(folder / "peopled.db")
    with sqlite3.connect(folder / "peopled.db") as database:
        database.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('jobs', ?)", (FIRST - 1,))
    database.close()
    return Snapshot((folder / "peopled.db").read_bytes(), NOW)


def busy(api: Api, folder: Path, begun: Snapshot) -> Snapshot:
    """Jobs 17 to 20, one of each kind: it runs, waits for the GPU of the first, has failed, has succeeded."""
    application = Application(api, folder / "busy", begun)
    train = {"command": ("python", "train.py"), "steps": 1000}
    for number, more in ((17, {"gpus": 1}), (18, {"gpus": 1}), (19, {"max_restarts": 0}), (20, {})):
        assert application.submit(**train, **more) == number
    application.clock.pass_time(300)
    for number in (17, 19, 20):
        application.report(number, 3.0, 1.5, 0.8, 0.4, 0.3125)
    application.end(19, Outcome(Ending.EXITED, exit_code=7))
    application.end(20)
    try:
        return application.kept()
    finally:
        application.close()
