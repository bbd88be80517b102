"""A small service that answers with canned JSON and remembers what it was asked, and a way to run the command line.

The real application says what may be asked and how it answers: a test fails where the small one is another.
"""

import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import tarfile
import termios
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from schedulearn.api.body.spec import JobIn, spec_out
from schedulearn.cli.main import main
from support.contract import Contract, Exchange

FINISHED = ("succeeded", "failed", "cancelled")


def make_job(number: int = 17, state: str = "running", **changes: Any) -> dict[str, Any]:
    started = None if state == "queued" else "2026-03-01T10:00:02Z"
    finished = "2026-03-01T10:05:00Z" if state in FINISHED else None
    ends = {"succeeded": (0, "finished"), "failed": (7, "exit code 7"), "cancelled": (None, "killed by SIGTERM")}
    code, text = ends.get(state, (None, ""))
    return {
        "id": number, "name": f"mnist-{number}", "user": "ann", "yours": True, "state": state, "reason": "",
        "priority": 50, "deadline": None, "time_limit": None, "cpus_limit": None, "reached_at": None, "workers": 1,
        "attempt": 0 if state == "queued" else 1,
        "placement": [{"worker": f"{number}.1.0", "node": "local", "devices": []}] if state == "running" else [],
        "submitted_at": "2026-03-01T10:00:00Z", "queued_at": "2026-03-01T10:00:00Z",
        "started_at": started, "finished_at": finished, "run_seconds": 298.0 if started else 0.0, "wait_seconds": 2.0,
        "restarts": 0, "preemptions": 0, "migrations": 0, "migration_seconds": 0.0, "moving_to": [], "resizes": 0,
        "exit": {"code": code, "signal": None, "ending": "exited", "text": text} if finished else None,
        "progress": {
            "step": 120, "steps": 1000, "metric": "loss", "value": 0.3125, "spark": [3.0, 1.5, 0.8, 0.4, 0.3125],
            "updated_at": "2026-03-01T10:04:00Z", "eta_seconds": None if finished else 125.0,
        } if started else None,
        "weight": None, "hint": None, "speedup": None, "checkpoint_at": None,
        "spec": {"command": ["python", "train.py"], "workers": 1, "resources": {"cpus": 1.0}, "env": {}},
        **changes,
    }  # fmt: skip


NODE = {
    "name": "local", "executor": "process", "state": "up", "problem": "", "lost_at": None, "address": "", "version": "",
    "default_image": "", "labels": {}, "leased": {"cpus": 2.0, "memory": 4e9, "gpus": 1.0},
    "capacity": {"cpus": 8.0, "memory": 16e9, "gpus": 1.0}, "reserved": {"cpus": 1.0, "memory": 1e9},
    "free": {"cpus": 5.0, "memory": 11e9, "gpus": 0.0},
    "devices": [{"id": "GPU-1", "kind": "gpus", "model": "A100", "memory": 40e9, "outside_use": "", "job": 17}],
    "jobs": [17],
    "storage": {"jobs_bytes": 10**9, "logs_bytes": 5 * 10**7, "snapshots_bytes": 10**6, "database_bytes": 10**5,
                "free_bytes": 10**11},
    "sharing": {"stage": "flowcon", "limits": {"17": 0.25, "19": 1.5}, "problem": ""},
    "isolation": ["own uids: 70000-99999", "control groups: cpu, memory"],
}  # fmt: skip
SERVER = {
    **NODE, "name": "gpu2", "executor": "docker", "state": "lost", "problem": "it is frozen", "jobs": [18],
    "lost_at": "2026-03-01T10:00:00Z", "address": "ssh://ann@gpu2", "version": "Docker 28.0.1",
    "default_image": "pytorch/pytorch", "labels": {"room": "b12"}, "devices": [], "storage": None,
    "sharing": {"stage": "fair", "limits": {}, "problem": "flowcon cannot set limits there: no control groups"},
}  # fmt: skip
USER = {"role": "user", "uid": None, "gid": None, "root": False, "runs_as": "uid 70002", "max_priority": 100}
ERRORS = {"source": "steps", "count": 40, "error": 0.05, "without": 0.3, "believed": True}
POLICY = {
    "preset": "fifo",
    "stages": {"order": "fifo", "allocate": "rigid", "place": "pack"},
    "params": {},
    "available": {
        "presets": {"fifo": "First in, first out."},
        "stages": {"order": ["fifo"], "place": ["pack", "round-robin"]},
    },
    "fault": None,
    "sharing_problems": {"gpu2": "flowcon cannot set limits there: no control groups"},
    "estimates": [ERRORS],
}


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, list[str]]
    body: Any
    key: str | None = None


@dataclass
class Service:
    """What the fake service knows, and what it was asked."""

    url: str = ""
    jobs: dict[int, dict[str, Any]] = field(default_factory=dict)
    logs: dict[int, bytes] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    refuse: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)  # "METHOD /path" → status, problem
    after_submit: str = "succeeded"  # the state in which a submitted job is found afterwards
    hint: str | None = None  # on the job that is submitted
    usage: list[dict[str, Any]] = field(default_factory=list)  # of every job's workers
    moves: list[dict[str, Any]] = field(default_factory=list)  # where every job could go
    news: list[dict[str, Any]] = field(default_factory=list)  # events that come after the story of a job
    contract: Contract = field(default_factory=Contract)
    problems: list[str] = field(default_factory=list)  # where it is not as the application

    def asked(self, method: str, path: str) -> list[Request]:
        return [r for r in self.requests if (r.method, r.path) == (method, path)]

    def submitted(self) -> dict[str, Any]:
        """The body of the one submission, without what depends on the machine."""
        (request,) = self.asked("POST", "/jobs")
        body = dict(request.body)
        env = {k: v for k, v in body.pop("env", {}).items() if k not in ("PATH", "VIRTUAL_ENV")}
        return {**body, "env": env}

    def answer(self, request: Request) -> tuple[int, Any]:
        if (refusal := self.refuse.get(f"{request.method} {request.path}")) is not None:
            return refusal
        parts = request.path.strip("/").split("/")
        if parts[0] == "jobs" and len(parts) > 1:
            return self._job(request, int(parts[1]), parts[2] if len(parts) > 2 else "")
        name = f"_{request.method.lower()}_{parts[0]}"
        return getattr(self, name)(request)

    def _job(self, request: Request, number: int, part: str) -> tuple[int, Any]:
        if number not in self.jobs:
            return 404, {"title": "Not found", "detail": f"there is no job {number}"}
        job = self.jobs[number]
        if request.method == "PATCH":
            job |= {name: request.body[name] for name in ("priority", "cpus_limit") if name in request.body}
        if request.method == "DELETE":
            return 202, self.jobs.pop(number)
        answers: dict[str, Callable[[], Any]] = {
            "": lambda: job, "cancel": lambda: job, "pause": lambda: job, "resume": lambda: job,
            "migrate": lambda: {"moves": self.moves} if request.method == "GET" else job,
            "logs": lambda: self.logs.get(number, b"")[int(request.query.get("offset", ["0"])[0]) :],
            "explain": lambda: explanation(job),
            "events": lambda: {"events": STORY[int(request.query.get("after", ["0"])[0]) :]},
            "attempts": lambda: {"attempts": [attempt(job)], "total": 1},
            "metrics": lambda: {"series": [{
                "name": "loss", "count": 3, "last": 0.3125, "min": 0.3, "max": 3.0,
                "points": [[0, 3.0, ""], [1, 1.0, ""], [2, 0.3125, ""]],
            }], "total": 1},
            "usage": lambda: {"attempt": f"{number}.1", "workers": self.usage, "total": len(self.usage)},
            "files": lambda: archive({"model.pt": b"weights", "logs/a.txt": b"a"}),
        }  # fmt: skip
        return 202 if request.method == "POST" else 200, answers[part]()

    def _get_jobs(self, request: Request) -> tuple[int, Any]:
        query = request.query
        found = [j for j in self.jobs.values() if "state" not in query or j["state"] in query["state"]]
        (field,) = query.get("sort", ["id"])
        found.sort(key=lambda j: (j[field] is not None, j[field]), reverse=query.get("order") == ["desc"])
        offset, limit = int(query.get("offset", ["0"])[0]), int(query.get("limit", ["100"])[0])
        return 200, {"jobs": found[offset : offset + limit], "total": len(found)}

    def _post_jobs(self, request: Request) -> tuple[int, Any]:
        spec = JobIn.model_validate(request.body).to_domain(0.0, 100)  # raises if it would be refused
        if request.query.get("dry_run"):
            return 200, {"valid": True, "spec": spec_out(spec, private=True)}
        number = max(self.jobs, default=16) + 1
        queued = make_job(number, "queued", name=request.body.get("name") or f"mnist-{number}", hint=self.hint)
        self.jobs[number] = make_job(number, self.after_submit, name=queued["name"])
        return 201, queued

    def _head_snapshots(self, request: Request) -> tuple[int, Any]:
        return 404, {}

    def _put_snapshots(self, request: Request) -> tuple[int, Any]:
        return 201, {}

    def _get_health(self, request: Request) -> tuple[int, Any]:
        return 200, {"status": "ok", "version": "1", "roles": [], "scheduler": "running", "database": "ok", "time": ""}

    def _get_nodes(self, request: Request) -> tuple[int, Any]:
        return 200, {"nodes": [NODE, SERVER]}

    def _patch_nodes(self, request: Request) -> tuple[int, Any]:
        labels = {key: value for key, value in (request.body.get("labels") or {}).items() if value is not None}
        return 202, {**NODE, "state": "draining", "labels": labels}

    def _post_nodes(self, request: Request) -> tuple[int, Any]:
        given = {"name": request.body.get("name") or "gpu2", "address": request.body["address"]}
        return 201, {**SERVER, **given, "jobs": [], "notes": ["its clock is 1 h ahead"]}

    def _delete_nodes(self, request: Request) -> tuple[int, Any]:
        jobs = [17] if request.query.get("force") == ["true"] else []
        return 202, {**SERVER, "state": "removing", "jobs": jobs}

    def _get_events(self, request: Request) -> tuple[int, Any]:
        after = int(request.query.get("after", ["0"])[0])
        return 200, {"events": [event for event in self.news if event["serial"] > after]}

    def _get_history(self, request: Request) -> tuple[int, Any]:
        names = ("id", "submitted_at", "run_seconds", "user", "name")
        ran = [job for job in self.jobs.values() if job["state"] in FINISHED and job["started_at"]]
        return 200, "".join(json.dumps({n: job[n] for n in names} | {"cpus": 1.0}) + "\n" for job in ran).encode()

    def _get_overview(self, request: Request) -> tuple[int, Any]:
        def these(*states: str) -> list[dict[str, Any]]:
            return [job for job in self.jobs.values() if job["state"] in states]

        queued = sorted(these("queued"), key=lambda job: -job["priority"])[:20]
        counts = {job["state"]: len(these(job["state"])) for job in self.jobs.values()}
        in_force = {name: POLICY[name] for name in ("preset", "stages", "fault")}
        return 200, {
            "at": "2026-03-01T10:06:00Z", "scheduler": "running", "policy": in_force, "counts": counts, "last_event": 1,
            "nodes": [NODE, SERVER], "holders": [], "running": these("starting", "running", "paused", "stopping"),
            "waiting": [{"job": job, "why": explanation(job)} for job in queued], "finished": these(*FINISHED),
        }  # fmt: skip

    def _get_policy(self, request: Request) -> tuple[int, Any]:
        return 200, POLICY

    def _put_policy(self, request: Request) -> tuple[int, Any]:
        return 200, {**POLICY, "preset": request.body["preset"]}

    def _get_users(self, request: Request) -> tuple[int, Any]:
        return 200, {"users": [{**USER, "name": "ann", "max_priority": 70}]}

    def _post_users(self, request: Request) -> tuple[int, Any]:
        runs_as = "root" if request.body.get("root") else "uid 70003"
        notes = ["Jobs of bob run as root."] if request.body.get("root") else []
        return 201, {**USER, **request.body, "runs_as": runs_as, "notes": notes}

    def _patch_users(self, request: Request) -> tuple[int, Any]:
        name = request.path.split("/")[-1]
        return 200, {**USER, "name": name, "notes": [], **request.body}

    def _delete_users(self, request: Request) -> tuple[int, Any]:
        return 204, b""

    def _get_tokens(self, request: Request) -> tuple[int, Any]:
        laptop = {"id": 3, "user": "ann", "label": "laptop", "created_at": "2026-03-01T10:00:00Z", "expires_at": None}
        page = {**laptop, "id": 4, "label": "page", "expires_at": "2026-03-31T10:00:00Z"}
        return 200, {"tokens": [laptop, page]}

    def _get_audit(self, request: Request) -> tuple[int, Any]:
        entry = {
            "serial": 9, "at": "2026-03-01T10:00:00Z", "actor": "ann", "actor_id": 2, "origin": "10.0.0.7",
            "action": "job.update", "object": "job 17", "owner": "bob", "outcome": "done", "data": {"priority": 80},
        }  # fmt: skip
        refused = {**entry, "serial": 8, "actor": "", "outcome": "refused: a valid token is needed", "data": {}}
        found = [e for e in (entry, refused) if e["serial"] < int(request.query.get("before", ["99"])[0])]
        limit = int(request.query["limit"][0])
        return 200, {"entries": found[:limit], "next": found[limit - 1]["serial"] if len(found) >= limit else None}

    def _post_tokens(self, request: Request) -> tuple[int, Any]:
        return 201, {"id": 4, "token": "sl_secret", "user": request.body.get("user") or "me", "label": "x"}

    def _post_logins(self, request: Request) -> tuple[int, Any]:
        until = "2026-03-01T22:00:00Z"
        return 201, {"code": "once-only", "user": request.body.get("user") or "me", "expires_at": until}

    def _delete_tokens(self, request: Request) -> tuple[int, Any]:
        return 204, b""


def event(serial: int, kind: str, state: str, cause: str) -> dict[str, Any]:
    at = "2026-03-01T10:00:00Z"
    return {"serial": serial, "at": at, "kind": kind, "cause": cause, "job": 17, "attempt": 1, "node": "local",
            "state": state, "data": {}}  # fmt: skip


STORY = [event(1, "submitted", "queued", "submitted by ann"), event(2, "started", "running", "all workers run")]


def explanation(job: dict[str, Any]) -> dict[str, Any]:
    estimate = {"start_seconds": 2400.0, "low": 1800.0, "high": 3600.0}
    return {"job": job["id"], "state": job["state"], "text": "It needs 2 GPUs on one node; the most free is 1.",
            "position": job.get("position", 1), "estimate": estimate, "errors": [ERRORS], "stage": "place", "size": "",
            "place": "On gpu1."}  # fmt: skip


def attempt(job: dict[str, Any]) -> dict[str, Any]:
    worker = {"worker": f"{job['id']}.1.0", "node": "local", "devices": [], "started_at": job["started_at"],
              "left_at": None, "ended_at": job["finished_at"], "exit": job["exit"]}  # fmt: skip
    return {"attempt": f"{job['id']}.1", "created_at": job["submitted_at"], "ended_at": job["finished_at"],
            "stop": None, "generation": 1, "workers": [worker]}  # fmt: skip


def archive(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    service: Service

    def _handle(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        body = json.loads(raw) if self.headers.get("Content-Type", "").startswith("application/json") and raw else raw
        request = Request(
            self.command, url.path.removeprefix("/api/v1"), parse_qs(url.query), body, self.headers["Idempotency-Key"]
        )
        self.service.requests.append(request)
        status, answer = self.service.answer(request)
        if status >= 400:
            answer = {"type": "about:blank", "title": "Refused", "status": status, **answer}
        exchange = Exchange(self.command, request.path, request.query, body if raw else None, status, answer)
        self.service.problems += self.service.contract.problems(exchange)
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        kind = "application/octet-stream" if isinstance(answer, bytes) else "application/json"
        self.send_response(status)
        self.send_header("Content-Type", "application/problem+json" if status >= 400 else kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("X-Next-Offset", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _handle  # noqa: N815 # the names http.server looks for

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture(scope="session")
def contract() -> Contract:
    return Contract()


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, contract: Contract) -> Iterator[Service]:
    """The fake service, and an environment (and an empty present folder) in which the command line finds it."""
    fake = Service(contract=contract)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"service": fake}))
    server.daemon_threads = True
    fake.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("SCHEDULEARN_URL", fake.url)
    monkeypatch.setenv("SCHEDULEARN_TOKEN", "sl_test")
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    yield fake
    server.shutdown()
    thread.join()
    server.server_close()
    assert not fake.problems


@dataclass
class Result:
    code: int
    raw: bytes  # what went to stdout
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode("utf-8", "replace")

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Result]


@pytest.fixture
def cli(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run the command line in this process, as if its output went into a pipe."""

    def run(*args: str | int, stdin: str = "") -> Result:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        capsysbinary.readouterr()
        code = main([str(arg) for arg in args])
        out, err = capsysbinary.readouterr()
        return Result(int(code), out, err.decode())

    return run


@pytest.fixture
def terminal() -> Callable[..., tuple[int, str]]:
    """Run the command line in a terminal of a given width; returns the exit code and what it showed."""

    def run(columns: int, *args: str) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
        child = subprocess.Popen(
            [sys.executable, "-m", "schedulearn.cli", *args],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**env, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(theirs)
        shown = b""
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            if not chunk:
                break
            shown += chunk
        os.close(ours)
        return child.wait(), shown.decode()

    return run


@pytest.fixture
def new_job() -> Callable[..., dict[str, Any]]:
    return make_job
