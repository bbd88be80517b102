"""A workbench for executors: real processes in a throw-away data folder, and nothing of them left at the end."""

import hashlib
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedulearn.domain.events import Event, WorkerExited, WorkerStarted
from schedulearn.domain.ids import JobId, NodeName, WorkerId
from schedulearn.domain.node import Node
from schedulearn.domain.outcome import Outcome
from schedulearn.domain.ports import Launch
from schedulearn.domain.resources import Resources
from schedulearn.domain.spec import JobSpec
from schedulearn.executors.process import ProcessExecutor, logs
from schedulearn.executors.process.cgroups import NO_CGROUPS, Cgroups, detect
from schedulearn.executors.process.claim import is_held, read_claim
from schedulearn.executors.process.paths import WorkerPaths
from schedulearn.executors.process.procfs import all_pids, descendants, stat_fields

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
        def found() -> list[Any]:
            return [e for e in self.events if isinstance(e, kind) and getattr(e, "worker", None) == worker]

        with self._arrived:
            assert self._arrived.wait_for(lambda: len(found()) >= count, DEADLINE), f"no {kind.__name__} of {worker}"
            return found()[count - 1]


def until(true: Callable[[], Any], what: str = "") -> Any:
    """Wait for something that no event tells."""
    deadline = time.monotonic() + DEADLINE
    while not (value := true()):
        assert time.monotonic() < deadline, f"never came true: {what or true}"
        time.sleep(0.01)
    return value


def dead(pid: int) -> bool:
    try:
        return stat_fields(pid)[0] == "Z"
    except (OSError, IndexError):
        return True


class Bench:
    """Makes executors and launches over one data folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.recorder = Recorder()
        self.executors: list[ProcessExecutor] = []
        self.until, self.dead = until, dead

    def executor(self, **options: Any) -> ProcessExecutor:
        options.setdefault("cgroups", NO_CGROUPS)
        sink = options.pop("sink", self.recorder)
        executor = ProcessExecutor(self.root, sink, SystemClock(), options.pop("node", NODE), **options)
        self.executors.append(executor)
        return executor

    def launch(self, command: str | tuple[str, ...], *, job: int = 1, rank: int = 0, **more: Any) -> Launch:
        """`spec` holds fields of the job's spec, all others are those of the launch."""
        spec = replace(JobSpec(name="test", command=command), **more.pop("spec", {}))
        return Launch(WorkerId(JobId(job), 1, rank), NODE.name, spec, **more)

    def python(self, code: str, **more: Any) -> Launch:
        return self.launch((sys.executable, "-u", "-c", code), **more)

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

    def file(self, launch: Launch, name: str) -> Path:
        """A file that the job writes in its run folder; waits until it has content."""
        path = self.paths(launch).job.run / name
        until(lambda: path.exists() and path.stat().st_size > 0, f"{name} written by the job")
        return path

    def pid_in(self, launch: Launch, name: str) -> int:
        return int(self.file(launch, name).read_text())

    def claims(self) -> list[Path]:
        return list(self.root.glob("jobs/*/attempts/*/*/claim"))

    def kill_shims(self) -> None:
        for path in self.claims():
            claim = read_claim(path)
            if claim and claim.pid and is_held(path):
                os.kill(claim.pid, signal.SIGKILL)

    def kill_everything(self) -> None:
        for path in self.claims():
            claim = read_claim(path)
            if claim and claim.pid and is_held(path):
                for pid in [*descendants(claim.pid), claim.pid]:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    until(lambda pid=pid: dead(pid))

    def strays(self) -> list[int]:
        """Processes that still belong to a worker of this data folder."""
        mark = f"SCHEDULEARN_CONTROL={self.root}/".encode()
        found = []
        for pid in all_pids():
            with suppress(OSError):
                if mark in Path(f"/proc/{pid}/environ").read_bytes() and not dead(pid):
                    found.append(pid)
        return found

    def groups(self) -> list[Path]:
        permitted = detect()
        instance = hashlib.sha256(str(self.root).encode()).hexdigest()[:8]
        bases = [base for base in (permitted.cpu, permitted.memory, permitted.unified) if base]
        return [group for base in bases for group in base.glob(f"schedulearn/{instance}-*")]


@pytest.fixture
def root() -> Iterator[Path]:
    """A data folder that other users can pass through, as jobs with their own user need it."""
    folder = Path(tempfile.mkdtemp(prefix="schedulearn-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def bench(root: Path) -> Iterator[Bench]:
    """At the end no process and no control group may be left, whatever the test did."""
    bench = Bench(root)
    yield bench
    for executor in bench.executors:
        executor.close()
    bench.kill_everything()
    strays, groups = bench.strays(), bench.groups()
    for pid in strays:
        os.kill(pid, signal.SIGKILL)
    assert not strays, "processes outlived their worker"
    assert not groups, "control groups were left behind"


@pytest.fixture
def real_cgroups() -> Cgroups:
    """What the machine permits; tests that need more skip."""
    permitted = detect()
    if permitted.unified is None and (permitted.cpu is None or permitted.memory is None):
        pytest.skip("this machine lets us make no control groups")
    return permitted
