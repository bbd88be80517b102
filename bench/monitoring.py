"""What it costs to look at 50 workers every few seconds: processes, containers here, those of an engine elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.figures import Figures, median
from bench.service import folder
from schedulearn.domain.events import Event, WorkerExited, WorkerStarted
from schedulearn.domain.ids import AttemptId, JobId, NodeName, WorkerId
from schedulearn.domain.job import Attempt, Lease, Worker
from schedulearn.domain.node import Node
from schedulearn.domain.ports import Executor, Launch
from schedulearn.domain.resources import CPUS, Resources
from schedulearn.domain.spec import JobSpec
from schedulearn.executors.process import ProcessExecutor
from schedulearn.executors.process.cgroups import NO_CGROUPS
from schedulearn.service.clock import SteadyClock
from schedulearn.service.monitor import EVERY, Monitor
from schedulearn.store import Cycle, Store, open_store

WORKERS = 50
_LOOKS = 20
_ROUNDS = 5  # questions to an engine for each container
_PATIENCE = 300.0  # seconds until all workers run
NODE = Node(NodeName("local"), capacity=Resources(cpus=8, memory=8e9))
_AIM = 2.0  # percent of one core

sys.path.append(str(Path(__file__).parent.parent / "tests"))  # where Docker Engines for tests are made


def measure() -> Figures:
    figures = Figures(f"Monitoring of {WORKERS} workers")
    for name, options in (("processes", {}), ("processes, without control groups", {"cgroups": NO_CGROUPS})):
        with folder() as root:
            _look(figures, root, name, lambda sink, root=root, options=options: processes(root, sink, options))
    try:
        with _daemon() as daemon, folder() as root:
            _look(figures, root, "containers here", lambda sink: _containers(root, sink, daemon), daemon)
    except _no_engine() as why:
        figures.note(f"containers were left out: {why}")
    figures.note(f"each is looked at every {EVERY:g} s, an engine elsewhere is asked so long after its last answer")
    figures.note("percent are of one core")
    return figures


def _look(figures: Figures, root: Path, name: str, make: Callable[[Any], Executor], daemon: Any = None) -> None:
    started: set[WorkerId] = set()
    ended: set[WorkerId] = set()

    def sink(event: Event) -> None:
        if isinstance(event, WorkerStarted | WorkerExited):
            (started if isinstance(event, WorkerStarted) else ended).add(event.worker)

    executor = make(sink)
    with open_store(root / "schedulearn.db") as store:
        workers = submit(store)
        try:
            for worker in workers:
                executor.start(Launch(worker, NODE.name, JobSpec("bench", ("sleep", "1000")), cpu_limit=1.0))
            wait(lambda: len(started) == WORKERS and all(executor.usage(w, NODE.name) for w in workers))
            _looks(figures, name, Monitor(store, executor), lambda: [executor.usage(w, NODE.name) for w in workers])
            if daemon:
                _asked(figures, executor, daemon, workers)
        finally:
            for worker in workers:
                executor.stop(worker, NODE.name, 0)
            wait(lambda: len(ended) == WORKERS)
            executor.close()


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


def cpu_of(action: Callable[[], object]) -> float:
    """CPU seconds of this thread."""
    seconds = []
    for _ in range(_LOOKS):
        start = time.thread_time()
        action()
        seconds.append(time.thread_time() - start)
    return median(seconds)


def submit(store: Store) -> list[WorkerId]:
    """Jobs with one worker each, as the scheduler writes them down before it starts them."""
    fence, now = store.take_role("scheduler", "bench", time.time(), 3600.0), time.time()
    workers = []
    for _ in range(WORKERS):
        job = store.add_job(JobSpec("bench", "sleep 1000"), "bench", now, "")
        worker = WorkerId(JobId(job), 1, 0)
        attempt = Attempt(AttemptId(JobId(job), 1), now, [Worker(worker, NODE.name)])
        lease = Lease(worker, NODE.name, Resources({CPUS: 0.1}))
        store.save_cycle(Cycle(fence, attempts=[attempt], leases_added=[lease]))
        workers.append(worker)
    return workers


def processes(root: Path, sink: Any, options: dict[str, Any]) -> ProcessExecutor:
    return ProcessExecutor(root, sink, SteadyClock(), NODE, **options)


def _containers(root: Path, sink: Any, daemon: Any) -> Executor:
    from dataclasses import replace

    from schedulearn.executors.docker import DockerExecutor
    from schedulearn.executors.docker.connect import Engine
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


def wait(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not true():
        if time.monotonic() > deadline:
            raise RuntimeError("the workers did not come up, or did not end")
        time.sleep(0.05)
