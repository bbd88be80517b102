"""A workbench for executors: real processes in a throw-away data folder, and nothing of them left at the end."""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.ports import Launch
from schedulearn.executors.common.instance import instance_of
from schedulearn.executors.kernel.groups import NO_CGROUPS, Cgroups
from schedulearn.executors.kernel.procfs import all_pids, descendants, stat_fields
from schedulearn.executors.process.cgroups import detect
from schedulearn.executors.process.claim import is_held, read_claim
from schedulearn.executors.process.executor import ProcessExecutor
from support.bench import NODE, SystemClock, Workbench, until
from support.docker import Daemons
from support.docker_bench import DockerBench
from support.simulated_bench import SimulatedBench


def dead(pid: int) -> bool:
    try:
        return stat_fields(pid)[0] == "Z"
    except (OSError, IndexError):
        return True


class Bench(Workbench):
    """Workers that are processes of this machine."""

    python_program = sys.executable

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.dead = dead

    def executor(self, **options: Any) -> ProcessExecutor:
        options.setdefault("cgroups", NO_CGROUPS)
        sink, clock = options.pop("sink", self.recorder), options.pop("clock", SystemClock())
        executor = ProcessExecutor(self.root, sink, clock, options.pop("node", NODE), **options)
        self.executors.append(executor)
        return executor

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
        instance = instance_of(self.root)
        bases = {getattr(permitted, name) for name in permitted.__slots__} - {None}
        return [group for base in bases for group in base.glob(f"schedulearn/{instance}-*")]


@pytest.fixture
def root() -> Iterator[Path]:
    """A data folder that other users can pass through, as jobs with their own user need it."""
    folder = Path(tempfile.mkdtemp(prefix="schedulearn-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def processes(root: Path) -> Iterator[Bench]:
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
def bench(processes: Bench) -> Bench:
    return processes


@pytest.fixture
def real_cgroups() -> Cgroups:
    """What the machine permits; tests that need more skip."""
    permitted = detect()
    if permitted.unified is None and (permitted.cpu is None or permitted.memory is None):
        pytest.skip("this machine lets us make no control groups")
    return permitted


@pytest.fixture
def containers(root: Path, daemons: Daemons) -> Iterator[DockerBench]:
    """At the end no container may be left, whatever the test did."""
    with DockerBench(root, daemons(0)) as bench:
        yield bench


@pytest.fixture
def simulated(root: Path) -> SimulatedBench:
    return SimulatedBench(root)
