"""What every executor has in common: commands in order, ends that stay true, limits, groups, shortages, forgetting."""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.events import Event, LimitsSet, NodeSeen, WorkerExited, WorkerStarted
from schedulearn.core.domain.group import Group
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.ports import Clock, EventSink, Launch
from schedulearn.core.domain.resources import CPUS
from schedulearn.core.domain.usage import Limits, Usage
from schedulearn.executors.common.control import (
    Ack,
    change,
    control_text,
    fixed_threads,
    kept_control,
    with_batch,
    with_group,
)
from schedulearn.executors.common.endings import End, read_end
from schedulearn.executors.common.exec import Exec
from schedulearn.executors.common.folders import forget_job, has_files, make_worker_folder
from schedulearn.executors.common.lanes import Lanes
from schedulearn.executors.common.launching import follow_group, workers_now_in
from schedulearn.executors.common.paths import JobPaths, WorkerPaths, locked, read_orders, write_file
from schedulearn.executors.common.shortage import Shortage, shortage

log = logging.getLogger(__name__)
LOG_CAP = 64 << 20  # bytes of a worker's output that are kept
THREADS = 8  # that carry out commands
ENDS_KEPT = 4096  # of workers that ended; those whose ends may still be asked for are among the last
_AGAIN = 0.5  # seconds until a platform that did not answer is asked once more
Found = TypeVar("Found")  # what a platform says of a worker that is there
Watch = TypeVar("Watch")  # what is kept of a worker while it is watched


class Unreachable(ExecutorError):
    """The platform did not answer. Whether it did what it was told is not known."""


class NeverBegan(ExecutorError):
    """The worker is lost before it could begin: that is no failure of its job."""


class Unwanted(NeverBegan):
    """The job was stopped before it was started."""

    def __init__(self) -> None:
        super().__init__("it was stopped before it was started")


class BaseExecutor(ABC, Generic[Found, Watch]):
    """Implements `domain.ports.Executor` for the workers of one node. Nothing in memory has to survive.

    Calls return at once. Their work is done in lanes: in order for one worker, side by side for different ones. It can
    be done again from its beginning: a task that fails is tried a few times more, and one that raises Unreachable until
    the platform answers. An end that was told stays true: that worker is never started again.

    A new kind of executor says what a platform has to say, each for one worker, in its lane; it may say more, and has
    an `exec` for commands inside its workers. `docs/architecture.md` tells the story of a worker.
    """

    exec: Exec

    def __init__(self, root: Path, sink: EventSink, clock: Clock, node: Node, waiting: int = 0) -> None:
        """`waiting`: how many tasks may wait for something long beside those that are carried out."""
        self._root, self._sink, self._clock, self._node = root.absolute(), sink, clock, node
        self._lanes = Lanes(THREADS, waiting)
        self._closed = threading.Event()
        self.shortage = Shortage(self._root)
        self._watched: dict[WorkerId, Watch] = {}  # running, as far as is known
        self._ended: dict[WorkerId, WorkerExited] = {}  # what was told of their end
        self._lock = threading.Lock()  # guards both

    # --- the port

    def nodes(self) -> list[Node]:
        return [replace(self._node, problem=self.shortage.now())]

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

    def set_batch(self, worker: WorkerId, node: NodeName, batch: int) -> None:  # noqa: ARG002
        self._submit(worker, self._set_batch, worker, batch)

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
            watch = self._watched.get(worker)
        return None if watch is None else self._usage_of(worker, watch)

    def has_checkpoint(self, job: JobId) -> bool:
        return has_files(JobPaths.of(self._root, job).checkpoint)

    def forget(self, job: JobId) -> None:
        self._lanes.submit(job, partial(self._patiently, partial(self._forget, job)))

    def close(self) -> None:
        self._closed.set()
        self._lanes.close()

    # --- what a platform has to say

    @abstractmethod
    def _begin(self, launch: Launch, paths: WorkerPaths) -> None:
        """Start it, once and for all: an earlier life of the service, or an earlier try, may have. OSError or
        ExecutorError: it cannot be started. The worker's folder is there, and its lock is held.
        """

    @abstractmethod
    def _find(self, worker: WorkerId, paths: WorkerPaths) -> Found | None:
        """What is there of it; None: it is not there, and never will be."""

    @abstractmethod
    def _started_at(self, paths: WorkerPaths) -> float | None:
        """By the service's clock; None: nothing is written down of a start."""

    @abstractmethod
    def _watch(self, worker: WorkerId, paths: WorkerPaths, found: Found) -> None:
        """Put it into `_watched`, if it is not there; at its end `_note_end` is told, in its lane."""

    @abstractmethod
    def _end_of(self, worker: WorkerId, paths: WorkerPaths) -> End | None:
        """How it ended, where `_find` found nothing; None: whatever watches it will find that out."""

    @abstractmethod
    def _tell_to_end(self, worker: WorkerId, paths: WorkerPaths, found: Found, grace: float) -> None:
        """Ask it to end, and kill it after the time that is given."""

    @abstractmethod
    def _pause(self, worker: WorkerId) -> None:
        """WorkerPaused once all of it is suspended."""

    @abstractmethod
    def _resume(self, worker: WorkerId) -> None: ...

    @abstractmethod
    def _limits_in_force(self, worker: WorkerId) -> Limits | None:
        """As the platform itself says. None: it is not running. ExecutorError: its limits cannot be changed here."""

    @abstractmethod
    def _put_limits(self, worker: WorkerId, limits: Limits) -> Limits:
        """Change them, all or none; what is in force then. OSError or ExecutorError: nothing has changed."""

    @abstractmethod
    def _ack(self, worker: WorkerId, paths: WorkerPaths) -> Ack | None:
        """What it says of its threads."""

    @abstractmethod
    def _usage_of(self, worker: WorkerId, watch: Watch) -> Usage | None:
        """Never waits. Any thread may ask."""

    @abstractmethod
    def _clear(self, job: JobId) -> bool:
        """Remove what the platform has of a job; False: the job still runs."""

    # --- what it may say besides

    def _recorded_end(self, paths: WorkerPaths) -> End | None:
        """What is written down of the end of a worker that is over."""
        return read_end(paths)

    def _write_down(self, paths: WorkerPaths, end: End) -> None:
        """An end that the executor itself has found out."""

    def _moment(self, end: End) -> float:
        """When that was, by the service's clock."""
        return self._clock.now() if end.at is None else end.at

    def _notes(self, paths: WorkerPaths) -> str:  # noqa: ARG002
        """What there is to tell of its start."""
        return ""

    def _reason(self, launch: Launch, error: OSError | ExecutorError) -> tuple[str, str]:  # noqa: ARG002
        """Why a worker could not be started, in words; and what the machine lacks, if it is the machine's fault."""
        return str(error), shortage(error.errno) if isinstance(error, OSError) else ""

    def _can_be_told(self, worker: WorkerId, paths: WorkerPaths) -> bool:  # noqa: ARG002
        """Whether it may still read what is sent to it."""
        return paths.launch.exists()

    def _send_control(self, worker: WorkerId, paths: WorkerPaths, text: bytes) -> None:
        """To where the worker reads it, if that is not the file in its folder. ExecutorError if it has just ended."""

    def _let_go(self, worker: WorkerId) -> None:
        """Forget what is kept in memory of a worker that has ended."""

    # --- in the background, one at a time for each worker

    def _submit(self, worker: WorkerId, task: Callable[..., None], *args: object) -> None:
        self._lanes.submit(worker, partial(self._patiently, partial(task, *args)))

    def _patiently(self, task: Callable[[], None]) -> None:
        while not self._closed.is_set():
            try:
                task()
                return
            except Unreachable as error:
                log.info("node %s: %s", self._node.name, error)
                self._closed.wait(_AGAIN)

    def _start(self, launch: Launch) -> None:
        worker, paths = launch.worker, self._paths(launch.worker)
        if self._told_of_its_end(worker, paths):
            return
        try:
            make_worker_folder(paths)
            with locked(paths.lock):
                self._begin(launch, paths)
        except Unreachable:
            raise
        except NeverBegan as why:
            self._end(worker, paths, End(Outcome(Ending.LOST, detail=str(why))))
        except (OSError, ExecutorError) as error:
            log.warning("worker %s could not be started: %s", worker, error)
            detail, short_of = self._reason(launch, error)
            ending = Ending.NODE_FAULT if short_of else Ending.NOT_STARTED
            self._end(worker, paths, End(Outcome(ending, detail=short_of or detail)))
        else:
            self._follow(worker)

    def _follow(self, worker: WorkerId) -> None:
        """Report what has become of a worker, and watch it if it still runs."""
        paths = self._paths(worker)
        if self._told_of_its_end(worker, paths):
            return
        found = self._find(worker, paths)
        if found is None:
            self._conclude(worker, paths)
            return
        self._watch(worker, paths, found)  # its end is told after this: it has the same lane
        at = self._started_at(paths)
        self._tell_start(worker, paths, self._clock.now() if at is None else at)

    def _stop(self, worker: WorkerId, grace: float) -> None:
        paths = self._paths(worker)
        if worker in self._ended or self._told_of_its_end(worker, paths):
            return
        found = self._find(worker, paths)
        if found is None:
            self._conclude(worker, paths)
            return
        self._tell_to_end(worker, paths, found, grace)
        if worker not in self._watched:
            self._follow(worker)

    def _told_of_its_end(self, worker: WorkerId, paths: WorkerPaths) -> bool:
        """A worker whose end was told, perhaps long ago, must not be found running."""
        if known := self._ended.get(worker):
            self._tell_start(worker, paths, self._started_at(paths))
            self._emit(known)
        elif end := self._recorded_end(paths):
            self._tell_unseen_start(worker, paths)
            self._note_end(worker, end)
        else:
            return False
        return True

    def _conclude(self, worker: WorkerId, paths: WorkerPaths) -> None:
        """Nothing is there of it any more."""
        if end := self._end_of(worker, paths):
            self._tell_unseen_start(worker, paths)
            self._end(worker, paths, end)

    def _tell_unseen_start(self, worker: WorkerId, paths: WorkerPaths) -> None:
        if worker not in self._watched:
            self._tell_start(worker, paths, self._started_at(paths))

    def _tell_start(self, worker: WorkerId, paths: WorkerPaths, at: float | None) -> None:
        if at is not None:
            self._emit(WorkerStarted(at, worker, self._notes(paths)))

    def _end(self, worker: WorkerId, paths: WorkerPaths, end: End) -> None:
        """An end that the executor itself has found out."""
        if end.at is None:
            end = replace(end, at=self._clock.now())
        self._write_down(paths, end)
        self._note_end(worker, end)

    def _note_end(self, worker: WorkerId, end: End) -> None:
        """Tell of an end, and remember what was told."""
        if end.outcome.ending is Ending.NODE_FAULT:
            self._run_short(end.outcome.detail)
        event = WorkerExited(self._moment(end), worker, end.outcome)
        self._let_go(worker)
        with self._lock:
            self._watched.pop(worker, None)
            self._ended[worker] = event
            if len(self._ended) > ENDS_KEPT:
                del self._ended[next(iter(self._ended))]
        self._emit(event)

    def _run_short(self, of: str) -> None:
        """Told before the end: the scheduler must not choose this node again."""
        self.shortage.note(of)
        self._emit(NodeSeen(self._clock.now(), replace(self._node, problem=of)))

    def _forget(self, job: JobId) -> None:
        if not self._clear(job):
            log.warning("job %s still runs: its folder is kept", job)
            return
        forget_job(JobPaths.of(self._root, job))
        with self._lock:
            self._ended = {worker: end for worker, end in self._ended.items() if worker.job != job}

    # --- the control file, and the limits in it

    def _regroup(self, worker: WorkerId, group: Group) -> None:
        paths = self._paths(worker)
        if not self._can_be_told(worker, paths):
            return
        known = kept_control(paths)
        news = with_group(known, group)
        if news:
            write_file(paths.control, news)
        try:  # also if the service's copy has the group already: a crash may have come between
            self._send_control(worker, paths, news or known)
        except Unreachable:
            raise
        except ExecutorError as refusal:  # it has just ended
            log.info("worker %s is not told of its group: %s", worker, refusal)
            return
        if read_orders(paths).get("carries_group") and worker in self._watched:
            self._limits_follow(worker, paths, news, known)

    def _set_batch(self, worker: WorkerId, batch: int) -> None:
        paths = self._paths(worker)
        if not self._can_be_told(worker, paths):
            return
        text = with_batch(kept_control(paths), batch)
        write_file(paths.control, text)
        try:
            self._send_control(worker, paths, text)
        except Unreachable:
            raise
        except ExecutorError as refusal:  # it has just ended
            log.info("worker %s is not told of its batch size: %s", worker, refusal)

    def _limits_follow(self, worker: WorkerId, paths: WorkerPaths, news: bytes | None, known: bytes) -> None:
        """Also if it knew of the group: a crash may have come before its limits."""
        try:
            present = (self._limits_in_force(worker) or Limits()).shared_by(_workers_in(paths))
        except Unreachable:
            raise
        except ExecutorError:  # they cannot be changed, which is told once for each new group
            if not news:
                return
            present = Limits()
        follow_group(news or known, present, partial(self._set_limits, worker, automatic=True))

    def _set_limits(self, worker: WorkerId, limits: Limits, automatic: bool) -> None:
        if worker not in self._watched:
            return
        paths = self._paths(worker)
        try:
            now, problem = self._change_limits(worker, paths, limits), ""
        except Unreachable:
            raise
        except (OSError, ExecutorError) as error:
            now, problem = limits, str(error)
        if now:
            fixed = self._fixed_threads(worker, paths)
            self._emit(LimitsSet(self._clock.now(), worker, now, problem, fixed, automatic))

    def _change_limits(self, worker: WorkerId, paths: WorkerPaths, limits: Limits) -> Limits | None:
        """What holds each of the workers in it now; None: that was so before, or it is not running."""
        present, held = self._limits_in_force(worker), _workers_in(paths)
        if present is None:
            return None
        return change(
            limits,
            present.shared_by(held),
            self._node.capacity[CPUS],
            lambda asked: self._put_limits(worker, asked.times(held)).shared_by(held),
            partial(self._tell_limits, worker, paths),
            partial(self._ack, worker, paths),
        )

    def _tell_limits(self, worker: WorkerId, paths: WorkerPaths, limits: Limits) -> None:
        text = control_text(kept_control(paths), limits, self._node.capacity[CPUS])
        self._send_control(worker, paths, text)
        write_file(paths.control, text)

    def _fixed_threads(self, worker: WorkerId, paths: WorkerPaths) -> int | None:
        """A platform that does not answer now must not keep us from saying that the limits have changed."""
        try:
            return fixed_threads(self._ack(worker, paths))
        except (OSError, ExecutorError):
            return None

    # --- helpers

    def _paths(self, worker: WorkerId) -> WorkerPaths:
        return WorkerPaths.of(self._root, worker)

    def _emit(self, event: Event) -> None:
        try:
            self._sink(event)
        except Exception:
            log.exception("%s was not taken", event)


def _workers_in(paths: WorkerPaths) -> int:
    """For how many workers its limits must do."""
    return workers_now_in(bool(read_orders(paths).get("carries_group")), kept_control(paths))
