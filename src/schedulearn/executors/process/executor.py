"""Runs workers as processes of this machine. What is true of a worker is in its folder; nothing here must survive."""

import logging
import os
import signal
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.events import WorkerPaused
from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.ports import Clock, EventSink, Launch
from schedulearn.core.domain.resources import CPUS, MEMORY
from schedulearn.core.domain.usage import Limits, Usage
from schedulearn.executors.common.base import LOG_CAP, BaseExecutor
from schedulearn.executors.common.control import LARGEST_ACK, Ack, read_ack
from schedulearn.executors.common.endings import End, read_end
from schedulearn.executors.common.instance import instance_of
from schedulearn.executors.common.launching import most_in, workers_in
from schedulearn.executors.common.paths import JobPaths, WorkerPaths, read_orders, write_json
from schedulearn.executors.kernel.groups import Cgroups, read_limits, write_limits
from schedulearn.executors.kernel.machine import gpu_devices
from schedulearn.executors.kernel.procfs import boot_id, descendants, stands_still, steady_time
from schedulearn.executors.process import cgroups as permitted
from schedulearn.executors.process import leftovers
from schedulearn.executors.process.claim import Claim, is_held, read_claim, runs, void
from schedulearn.executors.process.cores import Cores
from schedulearn.executors.process.exec import ProcessExec
from schedulearn.executors.process.gpus import Denied, gpus_of_others
from schedulearn.executors.process.prepare import Limits as Confines
from schedulearn.executors.process.prepare import prepare
from schedulearn.executors.process.spawn import PATIENCE, signal_shim, spawn
from schedulearn.executors.process.usage import UsageReader
from schedulearn.executors.process.view import Mounts, detect_mounts
from schedulearn.executors.process.watcher import Watched, Watcher

log = logging.getLogger(__name__)
LOOK_AGAIN = 0.01  # seconds between two looks at whether a tree stands still
LOOK_FOR = 1.0  # seconds of looking, before whatever else is to be done for this worker has its turn


class ProcessExecutor(BaseExecutor[Claim, Claim]):
    """A worker is there as long as its shim holds the claim."""

    def __init__(
        self,
        root: Path,
        sink: EventSink,
        clock: Clock,
        node: Node,
        *,
        log_cap: int = LOG_CAP,
        cgroups: Cgroups | None = None,  # None: whatever this machine permits
        mounts: Mounts | None = None,  # the same
    ) -> None:
        super().__init__(root, sink, clock, node)
        self._log_cap = log_cap
        self._cgroups = permitted.detect() if cgroups is None else cgroups
        self._mounts = detect_mounts() if mounts is None else mounts
        self._cores = Cores()
        self._pausing: set[WorkerId] = set()  # told to stand still, and not known to do so yet; guarded by `_lock`
        self._usage = UsageReader()
        self.exec = ProcessExec(self._root)
        self._watcher = Watcher(self._on_end)

    def nodes(self) -> list[Node]:
        (node,) = super().nodes()
        if not node.devices:
            return [node]
        with self._lock:
            shims = [claim.pid for claim in self._watched.values()]
        own = {pid for top in shims for pid in descendants(top)}
        return [replace(node, devices=gpu_devices(own))]

    def close(self) -> None:
        self._watcher.close()
        super().close()

    # --- start

    def _begin(self, launch: Launch, paths: WorkerPaths) -> None:
        if read_claim(paths.claim) is None:
            prepare(launch, paths, self._confines(launch))
            spawn(paths)

    def _confines(self, launch: Launch) -> Confines:
        given = Limits(launch.cpu_limit, memory=launch.spec.resources.memory)
        held = given.times(workers_in(launch))
        gpus = self._gpus_of_others(launch)
        plans = permitted.plan(
            self._cgroups,
            f"{instance_of(self._root)}-{launch.worker}",
            held.cpus,
            held.memory,
            all_workers=permitted.for_all_workers(self._node.capacity[MEMORY]),
            denied=permitted.gpu_rules(gpus.minors),
        )
        cores = [] if given.cpus is None else self._cores.take(launch.worker, given.cpus * most_in(launch))
        return Confines(plans, cores, self._log_cap, self._node.capacity[CPUS], self._mounts, gpus.files)

    def _gpus_of_others(self, launch: Launch) -> Denied:
        """None where nothing could keep the worker from them."""
        own_mounts = self._mounts.possible and launch.uid is not None
        return gpus_of_others(launch.devices) if own_mounts or self._cgroups.devices else Denied()

    # --- while it runs

    def _find(self, worker: WorkerId, paths: WorkerPaths) -> Claim | None:  # noqa: ARG002
        """The claim of a shim that lives, once its command runs."""
        deadline = time.monotonic() + PATIENCE
        while True:
            claim = read_claim(paths.claim)
            if claim is None:
                if not paths.folder.exists() or void(paths.claim):
                    return None
            elif not is_held(paths.claim):
                return None
            elif claim.started_at is not None or time.monotonic() > deadline:
                return claim
            time.sleep(0.01)

    def _started_at(self, paths: WorkerPaths) -> float | None:
        claim = read_claim(paths.claim)
        if claim is None or claim.started_at is None:
            return None
        return self._by_our_clock(claim.started_at, claim.started_steady, claim.boot_id)

    def _watch(self, worker: WorkerId, paths: WorkerPaths, found: Claim) -> None:
        self._cores.adopt(worker, read_orders(paths).get("cores", ()))
        with self._lock:
            known = worker in self._watched
            self._watched[worker] = found
        if not known:
            self._watcher.add(Watched(worker, found.pid, found.start_time, partial(is_held, paths.claim)))

    def _usage_of(self, worker: WorkerId, watch: Claim) -> Usage | None:
        return self._usage.read(worker, self._paths(worker), watch, self._clock.now())

    def _pause(self, worker: WorkerId) -> None:
        if claim := self._living(worker):
            signal_shim(claim, signal.SIGTSTP)
            with self._lock:
                self._pausing.add(worker)
            self._await_pause(worker)

    def _await_pause(self, worker: WorkerId) -> None:
        """Say when it stands still. One that hangs in the kernel may take long, and its end must not wait for that."""
        deadline = time.monotonic() + LOOK_FOR
        while worker in self._pausing and (claim := self._living(worker)):
            if stands_still(claim.pid):
                with self._lock:
                    self._pausing.discard(worker)
                self._emit(WorkerPaused(self._clock.now(), worker))
            elif time.monotonic() < deadline:
                time.sleep(LOOK_AGAIN)
            else:
                self._submit(worker, self._await_pause, worker)
                return

    def _resume(self, worker: WorkerId) -> None:
        with self._lock:
            self._pausing.discard(worker)
        if claim := self._living(worker):
            signal_shim(claim, signal.SIGCONT)

    def _living(self, worker: WorkerId) -> Claim | None:
        """The claim of the shim that runs it, if it runs."""
        paths = self._paths(worker)
        claim = read_claim(paths.claim)
        return claim if claim and claim.pid and is_held(paths.claim) else None

    # --- limits

    def _limits_in_force(self, worker: WorkerId) -> Limits:
        groups = self._groups(worker)
        if not groups:
            raise ExecutorError("limits cannot change here while a job runs: the service may make no control groups")
        return read_limits(groups)

    def _put_limits(self, worker: WorkerId, limits: Limits) -> Limits:
        return write_limits(self._groups(worker), limits)

    def _groups(self, worker: WorkerId) -> Cgroups:
        return self._usage.place(worker, self._paths(worker), self._watched[worker].child_pid).groups

    def _ack(self, worker: WorkerId, paths: WorkerPaths) -> Ack | None:  # noqa: ARG002
        return said_of_threads(paths)

    # --- the end

    def _tell_to_end(self, worker: WorkerId, paths: WorkerPaths, found: Claim, grace: float) -> None:
        try:
            write_json(paths.stop, {"grace": grace})
        except OSError as error:  # a full disk; the shim knows the job's own grace period
            log.warning("worker %s: cannot note the grace period: %s", worker, error)
        signal_shim(found, signal.SIGTERM)
        signal_shim(found, signal.SIGCONT)  # it may have been stopped

    def _on_end(self, worker: WorkerId) -> None:
        """Called by the watcher's thread."""
        self._submit(worker, self._end_of_watch, worker)

    def _end_of_watch(self, worker: WorkerId) -> None:
        if worker in self._watched:  # else another look has found out first
            self._conclude(worker, self._paths(worker))

    def _recorded_end(self, paths: WorkerPaths) -> End | None:
        """Not before its shim is gone, too."""
        end = read_end(paths)
        return end if end and not is_held(paths.claim) else None

    def _end_of(self, worker: WorkerId, paths: WorkerPaths) -> End:
        claim = read_claim(paths.claim)
        if claim and not read_end(paths):
            leftovers.clean(worker, paths, claim)
        return read_end(paths) or leftovers.end_without_record(read_claim(paths.claim))

    def _moment(self, end: End) -> float:
        return self._by_our_clock(end.at, end.steady, end.boot_id)

    def _by_our_clock(self, at: float | None, steady: float | None, boot: str) -> float:
        """A moment that a shim wrote down, by the service's clock: the machine's may have been set since, or before."""
        now = self._clock.now()
        if steady is not None and boot == boot_id():
            return now - max(0.0, steady_time() - steady)
        return now if at is None else min(at, now)

    def _let_go(self, worker: WorkerId) -> None:
        self._cores.release(worker)
        self._usage.forget(worker)
        with self._lock:
            self._pausing.discard(worker)

    def _clear(self, job: JobId) -> bool:
        return not runs(JobPaths.of(self._root, job))


def said_of_threads(paths: WorkerPaths) -> Ack | None:
    """The job owns the file, and may have made it huge, a link or a pipe."""
    try:
        handle = os.open(paths.ack, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return read_ack(os.read(handle, LARGEST_ACK))
        finally:
            os.close(handle)
    except OSError:
        return None
