"""What it costs to look at 50 workers every few seconds: processes, containers here, those of an engine elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.figures import Figures, median
from bench.service import folder
from bench.sleepers import NODE, WORKERS, processes, sleeping, wait
from schedulearn.core.domain.ids import WorkerId
from schedulearn.core.domain.ports import Executor
from schedulearn.executors.kernel.groups import NO_CGROUPS
from schedulearn.service.common.clock import SteadyClock
from schedulearn.service.learn.monitor import EVERY, Monitor

_LOOKS = 20
_ROUNDS = 5  # questions to an engine for each container
_AIM = 2.0  # percent of one core

sys.path.append(str(Path(__file__).parent.parent / "tests"))  # where Docker Engines for tests are made


def measure() -> Figures:
    figures = Figures(f"Monitoring of {WORKERS} workers")
    for name, options in (("processes", {}), ("processes, without control groups", {"cgroups": NO_CGROUPS})):
        with folder() as root:
            _look(figures, root, name, lambda sink, root=root, options=options: processes(root, sink, **options))
    try:
        with _daemon() as daemon, folder() as root:
            _look(figures, root, "containers here", lambda sink: _containers(root, sink, daemon), daemon)
    except _no_engine() as why:
        figures.note(f"containers were left out: {why}")
    figures.note(f"each is looked at every {EVERY:g} s, an engine elsewhere is asked so long after its last answer")
    figures.note("percent are of one core")
    return figures


def _look(figures: Figures, root: Path, name: str, make: Callable[[Any], Executor], daemon: Any = None) -> None:
    with sleeping(root, make) as (store, executor, workers):
        _looks(figures, name, Monitor(store, executor), lambda: [executor.usage(w, NODE.name) for w in workers])
        if daemon:
            _asked(figures, executor, daemon, workers)


def _looks(figures: Figures, name: str, monitor: Monitor, read: Callable[[], object]) -> None:
    monitor.look()  # where to look is found out once
    whole, reading = cpu_of(monitor.look), cpu_of(read)
    figures.add(f"{name}: CPU of one look", whole * 1e3, "ms", against=f"{reading * 1e3:.1f} ms of it reading")
    figures.add(f"{name}: CPU in all", whole / EVERY * 100, "%", aim=_AIM)


def _asked(figures: Figures, executor: Any, daemon: Any, workers: list[WorkerId]) -> None:
    """The same containers, as if their engine were on another machine."""
    from schedulearn.executors.docker.calls import Calls
    from schedulearn.executors.docker.connect import Engine
    from schedulearn.executors.docker.usage import ContainerUsage

    calls, clock = Calls(Engine(daemon.address)), SteadyClock()
    told = ContainerUsage(calls, executor._containers.name, clock, every=1e6, look_here=False)
    for worker in workers:
        told.read(worker)
    wait(lambda: all(told.read(worker) for worker in workers))  # examined, and asked once
    start, cpu = time.perf_counter(), time.process_time()
    for _ in range(_ROUNDS):
        told._round()
    cpu, wall = (time.process_time() - cpu) / _ROUNDS, (time.perf_counter() - start) / _ROUNDS
    figures.add("containers elsewhere: CPU of one round", cpu * 1e3, "ms", against=f"{wall * 1e3:.0f} ms of waiting")
    figures.add("containers elsewhere: CPU in all", cpu / (EVERY + wall) * 100, "%", aim=_AIM)
    told.close()


def cpu_of(action: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
    """CPU seconds of this thread. What has to be done `before` each time does not count."""
    seconds = []
    for _ in range(_LOOKS):
        before()
        start = time.thread_time()
        action()
        seconds.append(time.thread_time() - start)
    return median(seconds)


def _containers(root: Path, sink: Any, daemon: Any) -> Executor:
    from dataclasses import replace

    from schedulearn.executors.docker.connect import Engine
    from schedulearn.executors.docker.executor import DockerExecutor
    from support.base_image import IMAGE

    node = replace(NODE, executor="docker", default_image=IMAGE)
    return DockerExecutor(root, sink, SteadyClock(), node, Engine(daemon.address))


@contextmanager
def _daemon() -> Iterator[Any]:
    from support.docker import Daemons

    daemons = Daemons()
    try:
        yield daemons()
    finally:
        daemons.close()


def _no_engine() -> type[BaseException]:
    import pytest

    found: type[BaseException] = pytest.skip.Exception
    return found
