"""One life of a service with a Docker executor, in a process that can be killed: `python -m support.docker_life`.

Reads from standard input: where the engine is, which worker to start, and at which call to die.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from schedulearn.core.domain.events import Event
from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.spec import JobSpec
from schedulearn.executors.common import folders
from schedulearn.executors.docker import ending, starting
from schedulearn.executors.docker.connect import Engine
from schedulearn.executors.docker.containers import Containers
from schedulearn.executors.docker.executor import DockerExecutor
from schedulearn.executors.docker.rules import Rules
from support.bench import NODE, SystemClock
from support.docker_bench import DOCKER_NODE

# What is called on the way from a start to an end, in this order.
MOMENTS: dict[str, tuple[Any, str]] = {
    "fence": (starting, "prepare_job_folders"),
    "write the orders": (starting, "write_json"),
    "create": (Containers, "create"),
    "fill": (Containers, "put"),
    "start": (Containers, "start"),
    "fetch": (Containers, "get"),
    "commit": (ending, "commit"),
    "swap": (folders, "settle"),
    "write the end": (ending, "write_end"),
    "remove": (Containers, "remove"),
}


def live_and_die(root: Path, address: str, launch: Launch, mounts: str, moment: str, after: bool) -> None:
    """Start the worker in a process of its own, which is killed right before (or after) that moment."""
    told = {
        "root": str(root),
        "address": address,
        "worker": str(launch.worker),
        "command": launch.spec.command,
        "spec_mounts": list(launch.spec.mounts),
        "mounts": mounts,
        "moment": moment,
        "after": after,
    }
    words = [sys.executable, "-m", "support.docker_life"]
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    done = subprocess.run(
        words, input=json.dumps(told).encode(), env={**os.environ, "PYTHONPATH": path}, timeout=120, check=False
    )
    assert done.returncode == -signal.SIGKILL, f"it was not killed at {moment!r}, but ended with {done.returncode}"


def _die_at(owner: Any, name: str, after: bool) -> None:
    real: Callable[..., Any] = getattr(owner, name)

    def deadly(*args: Any, **options: Any) -> Any:
        if after:
            real(*args, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, deadly)


def main() -> None:
    told = json.loads(sys.stdin.read())
    _die_at(*MOMENTS[told["moment"]], told["after"])
    ended = threading.Event()

    def sink(event: Event) -> None:
        if type(event).__name__ == "WorkerExited":
            ended.set()

    rules = Rules(mounts=(told["mounts"],))
    executor = DockerExecutor(Path(told["root"]), sink, SystemClock(), DOCKER_NODE, Engine(told["address"]), rules)
    spec = JobSpec("test", told["command"], mounts=tuple(told["spec_mounts"]))
    worker = WorkerId.parse(told["worker"])
    assert worker.job == JobId(worker.job)
    executor.start(Launch(worker, NODE.name, spec))
    ended.wait(60)


if __name__ == "__main__":
    main()
