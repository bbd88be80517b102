"""Runs workers as processes of this machine. What is true of a worker is in its folder; nothing here must survive."""

import logging
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.events import Event, LimitsSet, NodeSeen, WorkerExited, WorkerPaused, WorkerStarted
from schedulearn.core.domain.group import Group
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.ports import Clock, EventSink, Launch
from schedulearn.core.domain.resources import CPUS, MEMORY
from schedulearn.core.domain.usage import Limits, Usage
from schedulearn.executors.common.control import with_group
from schedulearn.executors.common.endings import read_end
from schedulearn.executors.common.folders import forget_job, has_files, make_worker_folder
from schedulearn.executors.common.instance import instance_of
from schedulearn.executors.common.lanes import Lanes
from schedulearn.executors.common.launching import follow_group, most_in, workers_in
from schedulearn.executors.common.paths import JobPaths, WorkerPaths, locked, write_file, write_json
from schedulearn.executors.common.shortage import Shortage, shortage
from schedulearn.executors.kernel.change import fixed_threads
from schedulearn.executors.process import cgroups as permitted
from schedulearn.executors.process import leftovers
from schedulearn.executors.process.beside import ProcessBeside
from schedulearn.executors.process.claim import Claim, is_held, read_claim, runs, void
from schedulearn.executors.process.cores import Cores
from schedulearn.executors.process.discovery import gpu_devices
from schedulearn.executors.process.endings import end_of
from schedulearn.executors.process.gpus import Denied, gpus_of_others
from schedulearn.executors.process.limits import change_limits, known_control, limits_each, said_of_threads
from schedulearn.executors.process.prepare import Limits as Confines
from schedulearn.executors.process.prepare import prepare
from schedulearn.executors.process.procfs import boot_id, descendants, stands_still, steady_time
from schedulearn.executors.process.spawn import PATIENCE, signal_shim, spawn
from schedulearn.executors.process.usage import UsageReader
from schedulearn.executors.process.view import Mounts, detect_mounts
from schedulearn.executors.process.watcher import Watched, Watcher

log = logging.getLogger(__name__)
LOG_CAP = 64 << 20
THREADS = 8
ENDS_KEPT = 4096  # of workers that ended; those whose ends may still be asked for are among the last
LOOK_AGAIN = 0.01  # seconds between two looks at whether a tree stands still
LOOK_FOR = 1.0  # seconds of looking, before whatever else is to be done for this worker has its turn


class ProcessExecutor:
    """Implements `domain.ports.Executor`. Calls return at once; the work is done in order for each worker."""

    def __init__(
        self,
        root: Path,
        sink: EventSink,
        clock: Clock,
        node: Node,
        *,
        log_cap: int = LOG_CAP,
        cgroups: permitted.Cgroups | None = None,  # None: whatever this machine permits
        mounts: Mounts | None = None,  # the same
        use_pidfd: bool = True,
    ) -> None:
        self._root, self._sink, self._clock, self._node = root.absolute(), sink, clock, node
        self._log_cap = log_cap
        self._cgroups = permitted.detect() if cgroups is None else cgroups
        self._mounts = detect_mounts() if mounts is None else mounts
        self._cores = Cores()
        self._watched: dict[WorkerId, Claim] = {}  # running, as far as we know
        self._ended: dict[WorkerId, WorkerExited] = {}  # what was reported of their end, and stays true
        self._pausing: set[WorkerId] = set()  # told to stand still, and not known to do so yet
        self._lock = threading.Lock()  # guards the three above
        self._usage = UsageReader()
        self.beside = ProcessBeside(self._root)
        self._lanes = Lanes(THREADS)
        self._shortage = Shortage(self._root)
        self._watcher = Watcher(self._on_end, use_pidfd=use_pidfd)

    # --- the port

    def nodes(self) -> list[Node]:
        node = replace(self._node, problem=self._shortage.now())
        if not node.devices:
            return [node]
        with self._lock:
            shims = [claim.pid for claim in self._watched.values()]
        own = {pid for top in shims for pid in descendants(top)}
        return [replace(node, devices=gpu_devices(own))]

    def start(self, launch: Launch) -> None:
        self._submit(launch.worker, self._start, launch)

    def adopt(self, worker: WorkerId, node: NodeName) -> None:  # noqa: ARG002 (there is only one node)
        self._submit(worker, self._follow, worker)

    def stop(self, worker: WorkerId, node: NodeName, grace: float) -> None:  # noqa: ARG002
        self._submit(worker, self._stop, worker, grace)

    def pause(self, worker: WorkerId, node: NodeName) -> None:  # noqa: ARG002
        self._submit(worker, self._pause, worker)

    def resume(self, worker: WorkerId, node: NodeName) -> None:  # noqa: ARG002
        self._submit(worker, self._resume, worker)

    def regroup(self, worker: WorkerId, node: NodeName, group: Group) -> None:  # noqa: ARG002
        self._submit(worker, self._regroup, worker, group)

    def set_limits(
        self,
        worker: WorkerId,
        node: NodeName,  # noqa: ARG002
        limits: Limits,
        *,
        automatic: bool = False,
    ) -> None:
        self._submit(worker, self._set_limits, worker, limits, automatic)

    def usage(self, worker: WorkerId, node: NodeName) -> Usage | None:  # noqa: ARG002
        with self._lock:
            claim = self._watched.get(worker)
        return self._usage.read(worker, self._paths(worker), claim, self._clock.now()) if claim else None

    def has_checkpoint(self, job: JobId) -> bool:
        return has_files(JobPaths.of(self._root, job).checkpoint)

    def forget(self, job: JobId) -> None:
        self._lanes.submit(job, partial(self._forget, job))

    def close(self) -> None:
        self._watcher.close()
        self._lanes.close()

    # --- in the background, one at a time for each worker

    def _submit(self, worker: WorkerId, task: Callable[..., None], *args: object) -> None:
        self._lanes.submit(worker, partial(task, *args))

    def _start(self, launch: Launch) -> None:
        paths = self._paths(launch.worker)
        if launch.worker in self._ended:  # whoever was told so, perhaps long ago, must not find it running
            self._tell_end_again(launch.worker)
            return
        try:
            make_worker_folder(paths)
            with locked(paths.lock):
                if read_claim(paths.claim) is None:
                    prepare(launch, paths, self._limits(launch))
                    spawn(paths)
        except OSError as error:
            self._not_started(launch.worker, str(error), shortage(error.errno))
        except ExecutorError as error:
            self._not_started(launch.worker, str(error))
        else:
            self._follow(launch.worker)

    def _limits(self, launch: Launch) -> Confines:
        given = Limits(launch.cpu_limit, memory=launch.spec.resources.memory)
        held = given.times(workers_in(launch))
        gpus = self._gpus_of_others(launch)
        plans = self._cgroups.plan(
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

    def _follow(self, worker: WorkerId) -> None:
        """Report what has become of a worker, and watch it if it still runs."""
        if worker in self._ended:
            self._tell_end_again(worker)
            return
        paths = self._paths(worker)
        claim = _settled(paths)
        if claim is None:
            self._follow_to_end(worker, paths)
            return
        self._cores.adopt(worker, leftovers.read_orders(paths).get("cores", ()))
        self._emit(WorkerStarted(self._began(claim), worker))
        with self._lock:
            known = worker in self._watched
            self._watched[worker] = claim
        if not known:
            self._watcher.add(Watched(worker, claim.pid, claim.start_time, partial(is_held, paths.claim)))

    def _tell_end_again(self, worker: WorkerId) -> None:
        claim = read_claim(self._paths(worker).claim)
        if claim and claim.started_at is not None:
            self._emit(WorkerStarted(self._began(claim), worker))
        self._emit(self._ended[worker])

    def _follow_to_end(self, worker: WorkerId, paths: WorkerPaths) -> None:
        claim = read_claim(paths.claim)
        if worker not in self._watched and claim and claim.started_at is not None:
            self._emit(WorkerStarted(self._began(claim), worker))
        self._report_end(worker)

    def _on_end(self, worker: WorkerId) -> None:
        """Called by the watcher's thread."""
        self._submit(worker, self._end_of_watch, worker)

    def _end_of_watch(self, worker: WorkerId) -> None:
        if worker in self._watched:  # a stop may have found out first
            self._report_end(worker)

    def _report_end(self, worker: WorkerId) -> None:
        paths = self._paths(worker)
        claim = read_claim(paths.claim)
        if claim and not read_end(paths):
            leftovers.clean(worker, paths, claim)
        end = end_of(paths)
        if end.outcome.ending is Ending.NODE_FAULT:
            self._run_short(end.outcome.detail)
        self._note_end(WorkerExited(self._moment(end.at, end.steady, end.boot_id), worker, end.outcome))

    def _began(self, claim: Claim) -> float:
        return self._moment(claim.started_at, claim.started_steady, claim.boot_id)

    def _moment(self, at: float | None, steady: float | None, boot: str) -> float:
        """A moment that a shim wrote down, by the service's clock: the machine's may have been set since, or before."""
        now = self._clock.now()
        if steady is not None and boot == boot_id():
            return now - max(0.0, steady_time() - steady)
        return now if at is None else min(at, now)

    def _not_started(self, worker: WorkerId, why: str, short_of: str = "") -> None:
        """`short_of`: what the machine lacks, if it is the machine's fault."""
        log.warning("worker %s could not be started: %s", worker, why)
        if short_of:
            self._run_short(short_of)
        ending = Ending.NODE_FAULT if short_of else Ending.NOT_STARTED
        self._note_end(WorkerExited(self._clock.now(), worker, Outcome(ending, detail=short_of or why)))

    def _run_short(self, of: str) -> None:
        """Before the end is told: whoever hears of it must not choose this node again."""
        self._shortage.note(of)
        self._emit(NodeSeen(self._clock.now(), replace(self._node, problem=of)))

    def _note_end(self, end: WorkerExited) -> None:
        worker = end.worker
        self._cores.release(worker)
        self._usage.forget(worker)
        with self._lock:
            self._watched.pop(worker, None)
            self._pausing.discard(worker)
            self._ended[worker] = end
            if len(self._ended) > ENDS_KEPT:
                del self._ended[next(iter(self._ended))]
        self._emit(end)

    def _stop(self, worker: WorkerId, grace: float) -> None:
        paths = self._paths(worker)
        claim = _settled(paths)
        if claim is None:
            if worker not in self._ended:
                self._follow_to_end(worker, paths)
            return
        try:
            write_json(paths.stop, {"grace": grace})
        except OSError as error:  # a full disk; the shim knows the job's own grace period
            log.warning("worker %s: cannot note the grace period: %s", worker, error)
        signal_shim(claim, signal.SIGTERM)
        signal_shim(claim, signal.SIGCONT)  # somebody may have stopped it
        if worker not in self._watched:
            self._follow(worker)

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
        """Who runs it, if it runs."""
        paths = self._paths(worker)
        claim = read_claim(paths.claim)
        return claim if claim and claim.pid and is_held(paths.claim) else None

    def _regroup(self, worker: WorkerId, group: Group) -> None:
        paths = self._paths(worker)
        if not paths.launch.exists():
            return  # it was never started
        known = known_control(paths)
        text = with_group(known, group)
        if text:
            write_file(paths.control, text)
        if leftovers.read_orders(paths).get("carries_group") and worker in self._watched:
            # Also if it knew of the group: a crash may have come before its limits.
            groups = self._usage.place(worker, paths).groups
            if text or groups:
                follow_group(
                    text or known, limits_each(paths, groups), partial(self._set_limits, worker, automatic=True)
                )

    def _set_limits(self, worker: WorkerId, limits: Limits, automatic: bool) -> None:
        paths = self._paths(worker)
        if worker not in self._watched:
            return
        groups = self._usage.place(worker, paths).groups
        try:
            now, problem = change_limits(paths, groups, limits, self._node.capacity[CPUS]), ""
        except (OSError, ExecutorError) as error:
            now, problem = limits, str(error)
        if now:
            fixed = fixed_threads(said_of_threads(paths))
            self._emit(LimitsSet(self._clock.now(), worker, now, problem, fixed, automatic))

    def _forget(self, job: JobId) -> None:
        job_paths = JobPaths.of(self._root, job)
        if runs(job_paths):
            log.warning("job %s still runs: its folder is kept", job)
            return
        forget_job(job_paths)
        with self._lock:
            self._ended = {worker: end for worker, end in self._ended.items() if worker.job != job}

    def _paths(self, worker: WorkerId) -> WorkerPaths:
        return WorkerPaths.of(self._root, worker)

    def _emit(self, event: Event) -> None:
        try:
            self._sink(event)
        except Exception:
            log.exception("nobody took %s", event)


def _settled(paths: WorkerPaths) -> Claim | None:
    """The claim of a shim that lives, once its command runs; None: nothing runs, and nothing will."""
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
