"""The share loops of all machines: a thread for each, so that one that is slow delays no other, nor the scheduler."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from schedulearn.core.control.state import State
from schedulearn.core.domain.events import Event, LimitsSet
from schedulearn.core.domain.ids import NodeName, WorkerId
from schedulearn.core.domain.ports import Clock, Executor
from schedulearn.core.domain.usage import Limits
from schedulearn.core.policies.sharing import Share
from schedulearn.core.policies.stages import Policy
from schedulearn.service.common.repeating import log_fault
from schedulearn.service.share.container_monitor import LiveContainerMonitor, WorkLeft
from schedulearn.service.share.machine import SharedMachine
from schedulearn.service.share.snapshots import MachineSnapshot, snapshots
from schedulearn.store import Store

_LOG = logging.getLogger(__name__)
_AFTER_A_FAULT = 5.0  # seconds until a machine is looked at again that could not be
_LONGEST = 3600.0  # seconds: threads cannot wait for ever
_CLOSE_WITHIN = 10.0  # seconds


class ShareThread:
    """Looks at one machine: when a job comes or goes, and when the stage wanted to."""

    def __init__(self, machine: SharedMachine, clock: Clock) -> None:
        self.machine, self._clock = machine, clock
        self._wake = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"share-{machine.name}", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    def close(self) -> None:
        """Returns at once."""
        self._closed = True
        self.wake()

    def wait(self) -> None:
        self._thread.join(_CLOSE_WITHIN)

    def _run(self) -> None:
        pause = _LONGEST
        while True:
            self._wake.wait(pause)
            self._wake.clear()
            if self._closed:
                return
            pause = self._look()

    def _look(self) -> float:
        """How long to wait after it."""
        try:
            again = self.machine.look()
        except Exception:  # a full disk, a database that is busy: limits stay as they are
            log_fault(_LOG, "machine %s could not be looked at", self.machine.name)
            return _AFTER_A_FAULT
        return _LONGEST if again is None else min(_LONGEST, max(0.0, again - self._clock.now()))


class ShareLoops:
    """Used by the scheduler's thread alone. A machine has a loop once a job is there that a stage may limit."""

    def __init__(self, store: Store, executor: Executor, clock: Clock, post: Callable[[Event], None]) -> None:
        self._store, self._executor, self._clock, self._post = store, executor, clock, post
        self._work_left = WorkLeft(store)
        self._threads: dict[NodeName, ShareThread] = {}
        self._snapshots: dict[NodeName, MachineSnapshot] = {}
        self._stage: Share | None = None  # None: no job is limited
        self._name = "fair"

    def restore(self, saved: Mapping[NodeName, Mapping[str, Any]]) -> None:
        """Go on with what an earlier life has set."""
        for node, memory in saved.items():
            if node not in self._threads:
                self._begin(node, memory)

    def use(self, policy: Policy) -> None:
        """Follow this policy's stage from now on."""
        self._stage, self._name = policy.share, policy.stages.get("share", "fair")
        for thread in self._threads.values():
            thread.machine.follow(self._stage, self._name)
            thread.wake()

    def tell(self, state: State) -> None:
        """Something has happened: wake the loops of the machines where a job has come or gone."""
        limits_jobs = self._stage is not None
        if not limits_jobs and not self._threads:
            return
        self._snapshots = snapshots(state, self._snapshots)
        for node in self._snapshots if limits_jobs else ():
            if node not in self._threads:
                self._begin(node)
        for node, thread in list(self._threads.items()):
            if state.ledger.node(node) is None or (not limits_jobs and thread.machine.is_idle):
                self._threads.pop(node).close()
            elif thread.machine.tell(self._snapshots.get(node) or MachineSnapshot(0.0)):
                thread.wake()

    def refresh(self) -> None:
        """Jobs have ended: there is more to learn from."""
        self._work_left.refresh()

    def within(self, worker: WorkerId, node: NodeName, limits: Limits) -> Limits:
        """A worker's limits as its user wants them, and no more than its machine's loop gives it."""
        thread = self._threads.get(node)
        return thread.machine.within(worker, limits) if thread else limits

    def answered(self, event: LimitsSet) -> bool:
        """Whether no person asked for this. If a loop did, and was refused, it looks at once."""
        for thread in self._threads.values() if event.automatic else ():
            if thread.machine.answered(event) and event.problem:
                thread.wake()
        return event.automatic

    def close(self) -> None:
        """What is set stays set: the jobs go on, too."""
        for thread in self._threads.values():
            thread.close()
        for thread in self._threads.values():
            thread.wait()

    def _begin(self, node: NodeName, saved: Mapping[str, Any] | None = None) -> None:
        monitor = LiveContainerMonitor(node, self._store, self._executor, self._work_left)
        machine = SharedMachine(node, monitor, self._executor, self._clock, self._post, saved)
        machine.follow(self._stage, self._name)
        self._threads[node] = ShareThread(machine, self._clock)
