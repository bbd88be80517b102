"""Throughput under a CPU limit: with a fixed number of threads, and with threads that follow the limit.

All programs are there from the beginning, and only one at a time is not suspended. So each round measures all of them
at all limits, and what else the machine does meanwhile falls on all alike.
"""

import mmap
import resource
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.figures import Figures, median
from bench.service import folder
from schedulearn.core.domain.events import Event, LimitsSet, WorkerExited, WorkerPaused, WorkerStarted
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.spec import JobSpec
from schedulearn.core.domain.usage import Limits
from schedulearn.executors.common.sitehook import hook_folder, install_hook
from schedulearn.executors.process.cgroups import PARENT, detect
from schedulearn.executors.process.executor import ProcessExecutor
from schedulearn.service.common.clock import SteadyClock

LIMITS = (0.5, 1.0, 1.5, 2.0)
THREADS = (1, 2, 4)
ROUNDS = 5
_SETTLE, _WINDOW = 0.4, 1.6  # seconds after a change, and of measuring
_AIM = 10.0  # percent of the best
_STARTS = 41  # of an interpreter, with the hook and without
_PATIENCE = 120.0
_NODE = Node(NodeName("local"), capacity=Resources(cpus=2, memory=8e9))
_SCRIPT = """
import mmap, struct, sys, torch
{first}
torch.manual_seed(0)
model = torch.nn.Sequential(*(m for _ in range(6) for m in (torch.nn.Linear(256, 256), torch.nn.ReLU())))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
inputs = torch.randn(256, 256)
with open(sys.argv[1], "r+b") as file:
    count = mmap.mmap(file.fileno(), 8)
step = 0
while True:
    optimizer.zero_grad()
    loss = model(inputs).square().mean()
    loss.backward()
    optimizer.step()
    step += 1
    struct.pack_into("q", count, 0, step)
    {each}
"""
_PLAIN = _SCRIPT.format(first="", each="")
_WITH_LIBRARY = _SCRIPT.format(first="from schedulearn import job", each="job.report(step=step, loss=loss.item())")


class Program:
    """A training that counts its steps."""

    def __init__(self, name: str, number: int, root: Path, code: str, env: dict[str, str]) -> None:
        self.name = name
        self.worker = WorkerId(JobId(number), 1, 0)
        self._file = root / f"steps-{number}"
        self._file.write_bytes(bytes(8))
        command = (sys.executable, "-c", code, str(self._file))
        self.launch = Launch(self.worker, _NODE.name, JobSpec("bench", command, env=env), cpu_limit=LIMITS[0])
        self.speeds: dict[float, list[float]] = {limit: [] for limit in LIMITS}

    @property
    def steps(self) -> int:
        with open(self._file, "rb") as file, mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ) as count:
            return int(struct.unpack("q", count)[0])

    def speed(self, limit: float) -> float:
        return median(self.speeds[limit])


class Machine:
    """Runs programs, and lets one at a time go on."""

    def __init__(self, root: Path) -> None:
        self._events: list[Event] = []
        self._arrived = threading.Condition()
        self.executor = ProcessExecutor(root, self._note, SteadyClock(), _NODE)

    def start(self, program: Program) -> None:
        self.executor.start(program.launch)
        self._wait(WorkerStarted, program, 1)
        _until(lambda: program.steps > 0)
        self.suspend(program)

    def suspend(self, program: Program) -> None:
        before = self._count(WorkerPaused, program)
        self.executor.pause(program.worker, _NODE.name)
        self._wait(WorkerPaused, program, before + 1)

    def measure(self, program: Program, limit: float) -> None:
        before = self._count(LimitsSet, program)
        self.executor.resume(program.worker, _NODE.name)
        self.executor.set_limits(program.worker, _NODE.name, Limits(cpus=limit, weight=101 + before % 2))
        self._wait(LimitsSet, program, before + 1)  # the weight alone is a change: something is always told
        time.sleep(_SETTLE)
        start, steps = time.perf_counter(), program.steps
        time.sleep(_WINDOW)
        program.speeds[limit].append((program.steps - steps) / (time.perf_counter() - start))
        self.suspend(program)

    def end(self, programs: list[Program]) -> None:
        for program in programs:
            self.executor.stop(program.worker, _NODE.name, 0)
        for program in programs:
            self._wait(WorkerExited, program, 1)
        self.executor.close()

    def _note(self, event: Event) -> None:
        with self._arrived:
            self._events.append(event)
            self._arrived.notify_all()

    def _count(self, kind: type[Event], program: Program) -> int:
        return sum(isinstance(e, kind) and getattr(e, "worker", None) == program.worker for e in self._events)

    def _wait(self, kind: type[Event], program: Program, count: int) -> None:
        with self._arrived:
            if not self._arrived.wait_for(lambda: self._count(kind, program) >= count, _PATIENCE):
                raise RuntimeError(f"no {kind.__name__} of {program.name}")


def measure() -> Figures:
    figures = Figures("Steps of a torch training under a CPU limit, with threads that follow it and without")
    with folder() as root:
        uncoupled = [_fixed(threads, root) for threads in THREADS]
        coupled = [
            Program("unmodified script", 11, root, _PLAIN, {}),
            Program("script with schedulearn.job", 12, root, _WITH_LIBRARY, {}),
        ]
        with _running(root, [*uncoupled, *coupled]) as machine:
            for _ in range(ROUNDS):
                for limit in LIMITS:
                    for program in (*uncoupled, *coupled):
                        machine.measure(program, limit)
    for limit in LIMITS:
        _compare(figures, limit, uncoupled, coupled)
    figures.note(f"medians of {ROUNDS} rounds; each program is measured {_WINDOW:g} s in each round at each limit")
    _add_starts(figures)
    return figures


def _fixed(threads: int, root: Path) -> Program:
    """A job that chooses its number itself is left alone."""
    env = {"OMP_NUM_THREADS": str(threads)}
    return Program(f"{threads} thread{'s' * (threads > 1)}", threads, root, _PLAIN, env)


def _compare(figures: Figures, limit: float, uncoupled: list[Program], coupled: list[Program]) -> None:
    best = max(uncoupled, key=lambda program: program.speed(limit))
    for program in uncoupled:
        lost = 100 * (1 - program.speed(limit) / best.speed(limit))
        speed = f"{program.speed(limit):.0f} steps/s"
        figures.add(f"limit {limit:g}, {program.name}: behind the best", lost, "%", against=speed)
    for program in coupled:
        lost = 100 * (1 - program.speed(limit) / best.speed(limit))
        speed = f"{program.speed(limit):.0f} steps/s; the best: {best.name}"
        figures.add(f"limit {limit:g}, {program.name}, coupled: behind the best", lost, "%", aim=_AIM, against=speed)


@contextmanager
def _running(root: Path, programs: list[Program]) -> Iterator[Machine]:
    machine = Machine(root)
    try:
        for program in programs:
            machine.start(program)
        with _favoured():
            yield machine
    finally:
        machine.end(programs)


@contextmanager
def _favoured() -> Iterator[None]:
    """What else the machine does has the cores only when the measured program leaves them."""
    groups = detect()
    name, most = ("cpu.weight", "10000") if groups.unified else ("cpu.shares", "262144")
    base = groups.unified or groups.cpu
    if base is None:
        raise RuntimeError("this machine lets us make no control groups, so there are no limits to measure")
    file = base / PARENT / name
    before = file.read_text()
    file.write_text(most)
    try:
        yield
    finally:
        file.write_text(before)


def _add_starts(figures: Figures) -> None:
    """What the hook costs a program that has no numeric library."""
    with tempfile.TemporaryDirectory(prefix="schedulearn-bench-") as name:
        install_hook(Path(name))
        hook = {"PYTHONPATH": str(hook_folder(Path(name))), "SCHEDULEARN_THREADS": "2", "OMP_NUM_THREADS": "2"}
        times: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(_STARTS):
            for hooked, measured in times.items():
                measured.append(_start(hook if hooked else {}))
    plain, hooked_time = median(times[False]), median(times[True])
    more = (hooked_time - plain) * 1e3
    figures.add("start of an interpreter: CPU of the hook", more, "ms", against=f"{plain * 1e3:.1f} ms without")


def _start(env: dict[str, str]) -> float:
    """CPU seconds of a program that does nothing: the busiest machine does not change them much."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "pass"], env=env, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not true():
        if time.monotonic() > deadline:
            raise RuntimeError("a program does not train")
        time.sleep(0.02)
