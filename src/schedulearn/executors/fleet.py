"""Many executors as one: each call goes to the executor of its node."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from functools import partial

from schedulearn.core.domain.events import WorkerExited
from schedulearn.core.domain.group import Group
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.ports import Clock, EventSink, Executor, Launch
from schedulearn.core.domain.usage import Limits, Usage
from schedulearn.executors.common.exec import Exec, HasExec

log = logging.getLogger(__name__)
_CLOSE_WITHIN = 10.0  # seconds


class Member:
    """The executor of one node, with a thread that gives it its calls in order: a slow one delays no other."""

    def __init__(self, name: NodeName, executor: Executor, seen: Callable[[], list[Node]] | None = None) -> None:
        """`seen` says what the node has, if the executor itself is not the one that knows."""
        self.executor = executor
        self.seen = seen or executor.nodes
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"node-{name}", daemon=True)
        self._thread.start()

    def call(self, task: Callable[[], None]) -> None:
        self._calls.put(task)

    def close(self) -> None:
        """Whatever it was told is passed on first, unless the executor is stuck. Returns at once."""
        self._calls.put(self.executor.close)
        self._calls.put(None)

    def wait(self, until: float) -> None:
        """Until it is closed, or until that time of the monotonic clock."""
        self._thread.join(max(0.0, until - time.monotonic()))

    def _run(self) -> None:
        while task := self._calls.get():
            try:
                task()
            except Exception:
                log.exception("an executor failed")


class Fleet:
    """Implements `domain.ports.Executor`. Nodes come and go while it runs; no call waits for an engine."""

    def __init__(self, sink: EventSink, clock: Clock) -> None:
        self._sink, self._clock = sink, clock
        self._members: dict[NodeName, Member] = {}
        self._lock = threading.Lock()

    # --- nodes that come and go

    def add(self, name: NodeName, executor: Executor, seen: Callable[[], list[Node]] | None = None) -> None:
        with self._lock:
            before = self._members.get(name)
            self._members[name] = Member(name, executor, seen)
        if before:
            before.close()

    def remove(self, name: NodeName) -> None:
        with self._lock:
            gone = self._members.pop(name, None)
        if gone:
            gone.close()

    def names(self) -> list[NodeName]:
        with self._lock:
            return list(self._members)

    def executor_of(self, name: NodeName) -> Executor | None:
        member = self._members.get(name)
        return member.executor if member else None

    def exec_of(self, name: NodeName) -> Exec | None:
        """What can be done beside the workers there; None if there is no such node."""
        executor = self.executor_of(name)
        return executor.exec if isinstance(executor, HasExec) else None

    # --- the port

    def nodes(self) -> list[Node]:
        return [node for member in self._all() for node in member.seen()]

    def start(self, launch: Launch) -> None:
        self._tell(launch.worker, launch.node, lambda executor: executor.start(launch))

    def adopt(self, worker: WorkerId, node: NodeName) -> None:
        self._tell(worker, node, lambda executor: executor.adopt(worker, node))

    def stop(self, worker: WorkerId, node: NodeName, grace: float) -> None:
        self._tell(worker, node, lambda executor: executor.stop(worker, node, grace))

    def pause(self, worker: WorkerId, node: NodeName) -> None:
        self._tell(worker, node, lambda executor: executor.pause(worker, node))

    def resume(self, worker: WorkerId, node: NodeName) -> None:
        self._tell(worker, node, lambda executor: executor.resume(worker, node))

    def regroup(self, worker: WorkerId, node: NodeName, group: Group) -> None:
        self._tell(worker, node, lambda executor: executor.regroup(worker, node, group))

    def set_batch(self, worker: WorkerId, node: NodeName, batch: int) -> None:
        self._tell(worker, node, lambda executor: executor.set_batch(worker, node, batch))

    def set_limits(self, worker: WorkerId, node: NodeName, limits: Limits, *, automatic: bool = False) -> None:
        self._tell(worker, node, lambda executor: executor.set_limits(worker, node, limits, automatic=automatic))

    def usage(self, worker: WorkerId, node: NodeName) -> Usage | None:
        executor = self.executor_of(node)
        return executor.usage(worker, node) if executor else None

    def has_checkpoint(self, job: JobId) -> bool:
        return any(member.executor.has_checkpoint(job) for member in self._all())

    def forget(self, job: JobId) -> None:
        for member in self._all():
            member.call(partial(member.executor.forget, job))

    def close(self) -> None:
        until = time.monotonic() + _CLOSE_WITHIN
        for member in self._all():
            member.close()
        for member in self._all():
            member.wait(until)

    def _all(self) -> list[Member]:
        with self._lock:
            return list(self._members.values())

    def _tell(self, worker: WorkerId, node: NodeName, call: Callable[[Executor], None]) -> None:
        member = self._members.get(node)
        if member:
            member.call(partial(call, member.executor))
        else:  # it was removed, with all that ran there
            outcome = Outcome(Ending.LOST, detail=f"there is no node {node} any more")
            self._sink(WorkerExited(self._clock.now(), worker, outcome))
