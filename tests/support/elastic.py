"""Workers of an elastic job as real processes, with a real API; the test plays the scheduler and the executor."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import uvicorn

import schedulearn
from schedulearn.api.app import create_app
from schedulearn.core.control.explain import Explanation
from schedulearn.core.domain.ids import AttemptId, JobId, NodeName, WorkerId
from schedulearn.core.domain.job import Attempt, Worker
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.spec import JobSpec
from schedulearn.service.common.auth import hash_token
from schedulearn.service.gateway.gateway import Gateway
from schedulearn.store import Cycle, open_store
from support.waiting import wait_until

SOURCE = Path(schedulearn.__file__).parents[1]
PATIENCE = 120.0  # seconds; only a failure takes so long


class Api:
    """The API of a service, to be stopped and started again as if its process had died."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.store = open_store(data / "schedulearn.db")
        self.store.add_user("ann", "user")
        self.job = self.store.add_job(JobSpec("elastic", "python train.py"), "ann", 0.0, "submitted")
        self._fence = self.store.take_role("scheduler", "test", 0.0, 1e9)
        self.store.save_cycle(Cycle(self._fence, nodes=[Node(NodeName("local"), capacity=Resources(cpus=8))]))
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def begin(self, attempt: int, workers: int = 4) -> str:
        """What the scheduler writes down of a new attempt; returns its token."""
        id, token = AttemptId(JobId(self.job), attempt), f"sl_attempt-{attempt}"
        crew = [Worker(WorkerId(id.job, attempt, rank), NodeName("local"), started_at=0.0) for rank in range(workers)]
        self.store.save_cycle(Cycle(self._fence, attempts=[Attempt(id, 0.0, crew)]))
        self.store.add_token("ann", "attempt", hash_token(token), 0.0, id)
        return token

    def start(self) -> None:
        """With a memory as empty as that of a new process."""
        self._gateway = Gateway(
            self.store,
            self._data,
            lambda: None,
            lambda job: Explanation("", 0, None, ""),
            scheduler_seen=lambda: None,
            waiting=lambda count: [],
        )
        config = uvicorn.Config(
            create_app(self._gateway), port=self.port, log_level="error", timeout_graceful_shutdown=1, lifespan="off"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        wait_until(lambda: self._server and self._server.started, PATIENCE, "the API is up")

    def stop(self) -> None:
        if self._server and self._thread:
            self._gateway.close()
            self._server.should_exit = True
            self._thread.join(PATIENCE)
            self._server = None

    def close(self) -> None:
        self.stop()
        self.store.close()


class Starter:
    """Starts programs that use torch, without the time that importing it takes; see torch_starter.py."""

    def __init__(self) -> None:
        words = [sys.executable, str(Path(__file__).with_name("torch_starter.py"))]
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def start(self, program: Path, *arguments: str, env: Mapping[str, str], output: Path) -> "Program":
        """It runs in the folder of its output."""
        words = [str(program), *arguments]
        return Program(self, self.ask({"start": words, "env": dict(env), "output": str(output)}))

    def ask(self, request: Mapping[str, Any]) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=PATIENCE)


class Program:
    """A process that the starter has started."""

    def __init__(self, starter: Starter, pid: int) -> None:
        self._starter, self.pid = starter, pid
        self._status: int | None = None

    def poll(self) -> int | None:
        if self._status is None:
            self._status = self._starter.ask({"poll": self.pid})
        return self._status

    def wait(self) -> int:
        """Its exit status; minus the signal if one killed it."""
        wait_until(lambda: self.poll() is not None, PATIENCE, "the worker has ended")
        assert self._status is not None
        return self._status

    def signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


class Crew:
    """The workers of one attempt."""

    def __init__(
        self, api: Api, starter: Starter, attempt: int, program: Path, folder: Path, env: Mapping[str, str]
    ) -> None:
        self._api, self._starter, self._attempt = api, starter, attempt
        self._program, self._folder, self._env = program, folder, env
        self._token = api.begin(attempt)
        self.workers: dict[int, Program] = {}

    def regroup(self, generation: int, members: Sequence[int], ranks: Sequence[int], **more: Any) -> None:
        """Write the control files of these workers, as the executor does; `more` is in them, too."""
        for rank in ranks:
            place = self.place(rank)
            place.mkdir(parents=True, exist_ok=True)
            content = {"cpus": 1.0, "threads": 1, "memory": None, "world_size": len(members), **more}
            (place / "new").write_text(json.dumps({**content, "generation": generation, "members": list(members)}))
            (place / "new").replace(place / "control.json")

    def start(self, rank: int, **more: str) -> None:
        place = self.place(rank)
        (place / "token").write_text(self._token)
        worker = f"{self._api.job}.{self._attempt}.{rank}"
        env = {
            "PATH": os.environ["PATH"],
            "SCHEDULEARN_WORKER": worker,
            "SCHEDULEARN_ATTEMPT": worker.rpartition(".")[0],
            "SCHEDULEARN_JOB_ID": str(self._api.job),
            "SCHEDULEARN_URL": self._api.url,
            "SCHEDULEARN_TOKEN_FILE": str(place / "token"),
            "SCHEDULEARN_CONTROL": str(place / "control.json"),
            "SCHEDULEARN_SPOOL": str(place / "spool.jsonl"),
        }
        notes, output = str(place / "steps.jsonl"), place / "output"
        self.workers[rank] = self._starter.start(self._program, notes, env={**env, **self._env, **more}, output=output)

    def steps(self, rank: int) -> list[dict[str, Any]]:
        """What the worker has noted of its steps so far."""
        file = self.place(rank) / "steps.jsonl"
        text = file.read_text() if file.exists() else ""
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def until_trained_by(self, rank: int, size: int, steps: int = 3) -> None:
        """Wait until this worker has done so many more steps in a group of this size."""
        before = len(self.steps(rank))

        def done() -> bool:
            assert self.workers[rank].poll() is None, self.output(rank)
            new = self.steps(rank)[before:]
            return sum(step["done"] and step["size"] == size for step in new) >= steps

        wait_until(done, PATIENCE, f"worker {rank} trains in a group of {size}")

    def end(self, rank: int) -> int:
        """The exit status."""
        return self.workers[rank].wait()

    def output(self, rank: int) -> str:
        file = self.place(rank) / "output"
        return file.read_text() if file.exists() else ""

    def place(self, rank: int) -> Path:
        return self._folder / str(rank)

    def close(self) -> None:
        for worker in self.workers.values():
            worker.signal(signal.SIGKILL)
            worker.wait()
