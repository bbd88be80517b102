"""Fifty workers that sleep, each the only one of its job, written down and started as the scheduler does."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from schedulearn.core.domain.events import Event, WorkerExited, WorkerStarted
from schedulearn.core.domain.ids import AttemptId, JobId, NodeName, WorkerId
from schedulearn.core.domain.job import Attempt, Lease, Worker
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.ports import Executor, Launch
from schedulearn.core.domain.resources import CPUS, Resources
from schedulearn.core.domain.spec import JobSpec
from schedulearn.executors.process.executor import ProcessExecutor
from schedulearn.service.common.clock import SteadyClock
from schedulearn.store import Cycle, Store, open_store

WORKERS = 50
NODE = Node(NodeName("local"), capacity=Resources(cpus=8, memory=8e9))
_PATIENCE = 300.0  # seconds until all workers run


class Sleepers(NamedTuple):
    store: Store
    executor: Any  # an Executor; some benchmarks look into it
    workers: list[WorkerId]


@contextmanager
def sleeping(root: Path, make: Callable[[Callable[[Event], None]], Executor]) -> Iterator[Sleepers]:
    """All of them run, and what they use is known. `make` has the executor's sink of events as its argument."""
    started: set[WorkerId] = set()
    ended: set[WorkerId] = set()

    def sink(event: Event) -> None:
        if isinstance(event, WorkerStarted | WorkerExited):
            (started if isinstance(event, WorkerStarted) else ended).add(event.worker)

    executor = make(sink)
    with open_store(root / "schedulearn.db") as store:
        workers = _submit(store)
        try:
            for worker in workers:
                executor.start(Launch(worker, NODE.name, JobSpec("bench", ("sleep", "1000")), cpu_limit=1.0))
            wait(lambda: len(started) == WORKERS and all(executor.usage(w, NODE.name) for w in workers))
            yield Sleepers(store, executor, workers)
        finally:
            for worker in workers:
                executor.stop(worker, NODE.name, 0)
            wait(lambda: len(ended) == WORKERS)
            executor.close()


def processes(root: Path, sink: Callable[[Event], None], **options: Any) -> ProcessExecutor:
    return ProcessExecutor(root, sink, SteadyClock(), NODE, **options)


def wait(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not true():
        if time.monotonic() > deadline:
            raise RuntimeError("the workers did not come up, or did not end")
        time.sleep(0.05)


def _submit(store: Store) -> list[WorkerId]:
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
