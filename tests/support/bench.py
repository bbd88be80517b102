"""What tests of all executors share: a clock, a sink for events, launches over one data folder."""

import json
import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from schedulearn.core.domain.events import Event, WorkerExited, WorkerStarted
from schedulearn.core.domain.group import Group
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.outcome import Outcome
from schedulearn.core.domain.ports import Executor, Launch
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.spec import JobSpec
from schedulearn.executors.common import logs
from schedulearn.executors.common.paths import WorkerPaths
from support.deeds import Deed
from support.waiting import wait_until

DEADLINE = 60.0  # only reached when something is broken
NODE = Node(NodeName("here"), capacity=Resources(cpus=os.cpu_count() or 1, memory=8e9))


class SystemClock:
    def now(self) -> float:
        return time.time()


class Recorder:
    """An event sink that can be waited on."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._arrived = threading.Condition()

    def __call__(self, event: Event) -> None:
        with self._arrived:
            self.events.append(event)
            self._arrived.notify_all()

    def wait(self, kind: type[Event], worker: WorkerId, count: int = 1) -> Any:
        def enough() -> bool:
            return len(self.found(kind, worker)) >= count

        with self._arrived:
            assert self._arrived.wait_for(enough, DEADLINE), f"no {kind.__name__} of {worker}"
            return self.found(kind, worker)[count - 1]

    def found(self, kind: type[Event], worker: WorkerId) -> list[Any]:
        return [e for e in self.events if isinstance(e, kind) and getattr(e, "worker", None) == worker]


def until(true: Callable[[], Any], what: str = "") -> Any:
    """Wait for something that no event tells."""
    return wait_until(true, DEADLINE, what)


class Workbench:
    """Makes launches over one data folder and waits for what comes of them; a subclass makes executors."""

    python_program = "python3"

    def __init__(self, root: Path) -> None:
        self.root = root
        self.recorder = Recorder()
        self.executors: list[Any] = []

    def until(self, true: Callable[[], Any], what: str = "") -> Any:
        return until(true, what)

    def pass_time(self, seconds: float) -> None:
        time.sleep(seconds)

    def executor(self, **options: Any) -> Executor:
        """A new one over the same data each time: the service's next life."""
        raise NotImplementedError

    def launch(
        self, command: str | tuple[str, ...], *, job: int = 1, attempt: int = 1, rank: int = 0, **more: Any
    ) -> Launch:
        """`spec` holds fields of the job's spec, all others are those of the launch."""
        spec = replace(JobSpec(name="test", command=command), **more.pop("spec", {}))
        return Launch(WorkerId(JobId(job), attempt, rank), NODE.name, spec, **more)

    def python(self, code: str, **more: Any) -> Launch:
        return self.launch((self.python_program, "-u", "-c", code), **more)

    def doing(self, deed: Deed, **more: Any) -> Launch:
        return self.python(deed.python, **more) if deed.python else self.launch(deed.command, **more)

    def paths(self, launch: Launch) -> WorkerPaths:
        return WorkerPaths.of(self.root, launch.worker)

    def started(self, launch: Launch, count: int = 1) -> WorkerStarted:
        event: WorkerStarted = self.recorder.wait(WorkerStarted, launch.worker, count)
        return event

    def ended(self, launch: Launch, count: int = 1) -> Outcome:
        event: WorkerExited = self.recorder.wait(WorkerExited, launch.worker, count)
        return event.outcome

    def run(self, launch: Launch, **options: Any) -> Outcome:
        """From start to end."""
        self.executor(**options).start(launch)
        return self.ended(launch)

    def output(self, launch: Launch) -> bytes:
        return logs.read(self.paths(launch).log, None, 1 << 30).data

    def content(self, launch: Launch, name: str) -> bytes:
        """Of a file that the job writes in its run folder; waits until there is some."""
        path = self.paths(launch).job.run / name
        found: bytes = until(lambda: path.exists() and path.read_bytes(), f"{name} written by the job")
        return found

    def touch(self, launch: Launch, name: str) -> None:
        """Make a file in the run folder of a running job."""
        (self.paths(launch).job.run / name).touch()

    def group(self, launch: Launch) -> Group:
        """The one that `deeds.MEMBER` last spoke of."""
        *_, line = re.findall(rb"ready (\[.*\])\n", self.output(launch)) or [b"[-1, [], 0, null]"]
        generation, members, size, _ = json.loads(line)
        assert size == len(members)
        return Group(generation, tuple(members))

    # --- what a `Deed` promises

    def ready(self, launch: Launch) -> None:
        """Wait until it is past its beginning."""
        self.until(lambda: b"ready" in self.output(launch), "the worker says that it is ready")

    def ticks(self, launch: Launch) -> int:
        """How far it has come."""
        return len(self.output(launch))

    def times_run(self, launch: Launch) -> int:
        """Of one that makes a note of it; at least once, that is waited for."""
        return self.content(launch, "ran").count(b"once")

    def let_go(self, launch: Launch) -> None:
        """One that waits for it may end now."""
        self.touch(launch, "go")

    def jobs_kept(self) -> set[str]:
        """Those of which the executor still has anything; one that is half gone has a name of its own."""
        return {path.name for path in (self.root / "jobs").iterdir()}
