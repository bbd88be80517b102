"""Runs workers as containers of one engine. What is true of them is in the engine and in the worker's folder."""

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from pathlib import Path

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.events import Event, NodeSeen, WorkerExited, WorkerPaused, WorkerStarted
from schedulearn.core.domain.group import Group
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.ports import Clock, EventSink, Launch
from schedulearn.core.domain.resources import CPUS
from schedulearn.core.domain.usage import Limits, Usage
from schedulearn.executors.common.endings import End, read_end, write_end
from schedulearn.executors.common.folders import forget_job, make_worker_folder
from schedulearn.executors.common.instance import instance_of
from schedulearn.executors.common.lanes import Lanes
from schedulearn.executors.common.launching import follow_group
from schedulearn.executors.common.paths import JobPaths, WorkerPaths, locked
from schedulearn.executors.common.shortage import Shortage, engine_shortage, shortage
from schedulearn.executors.docker.beside import DockerBeside
from schedulearn.executors.docker.calls import Calls, Refused, Unreachable
from schedulearn.executors.docker.connect import Engine
from schedulearn.executors.docker.containers import CREATED, PAUSED, Containers, State
from schedulearn.executors.docker.control import led, regroup
from schedulearn.executors.docker.ending import REMOVED, Ender, Patience, carried_group, ids_of, orders_of
from schedulearn.executors.docker.follower import Follower
from schedulearn.executors.docker.grace import Grace
from schedulearn.executors.docker.images import Images
from schedulearn.executors.docker.layers import Layers, Unwanted
from schedulearn.executors.docker.limits import Limiter
from schedulearn.executors.docker.live import LiveCheckpoints
from schedulearn.executors.docker.mounts import Sight, concealed
from schedulearn.executors.docker.names import worker_of
from schedulearn.executors.docker.networks import OWN, Networks
from schedulearn.executors.docker.output import Output
from schedulearn.executors.docker.rounds import Rounds
from schedulearn.executors.docker.rules import Rules
from schedulearn.executors.docker.shared import SharedCheckpoints
from schedulearn.executors.docker.starting import Removed, Site, begin
from schedulearn.executors.docker.usage import ContainerUsage

log = logging.getLogger(__name__)
LOG_CAP = 64 << 20
THREADS = 8
ENDS_KEPT = 4096  # of workers that ended; those whose ends may still be asked for are among the last
WAITING = 256  # workers whose images are being fetched or prepared beside that
ORPHAN_AFTER = 600.0  # seconds: a service whose database is slow may take its time to tell of all its workers
_AGAIN = 0.5  # seconds until an engine that did not answer is asked once more
_AFTER_A_FAULT = 5.0
_PLACEHOLDERS_TIME = 5.0  # seconds to end, once they are told
_USUAL = Rules()


class DockerExecutor:
    """Implements `domain.ports.Executor`. Calls return at once; the work is done in order for each worker.

    An engine that does not answer is asked again until it does: only the service decides that a server is lost.
    """

    def __init__(
        self,
        root: Path,
        sink: EventSink,
        clock: Clock,
        node: Node,
        engine: Engine,
        rules: Rules = _USUAL,
        *,
        log_cap: int = LOG_CAP,
    ) -> None:
        self._root, self._sink, self._clock, self._node = root.absolute(), sink, clock, node
        self._log_cap = log_cap
        instance = instance_of(self._root)
        calls = Calls(engine)
        shared = SharedCheckpoints(Path(rules.shared_checkpoints), instance) if rules.shared_checkpoints else None
        self._containers = Containers(calls, instance)
        self._closed = threading.Event()
        self._lanes = Lanes(THREADS, WAITING)
        self.shortage = Shortage(self._root)
        images, self._networks = Images(calls), Networks(calls, instance, rules)
        self._layers = Layers(self._containers, images, self._networks, rules, self._closed)
        self._sight = Sight(self._containers, images)
        self._site = Site(
            self._root,
            self._containers,
            images,
            self._layers,
            self._networks,
            self._sight,
            rules,
            node,
            clock,
            log_cap,
            shared,
            self._lanes.aside,
            self._closed,
        )
        self._ender = Ender(self._containers, clock, with_checkpoint=shared is None)
        self._live = LiveCheckpoints(self._containers, clock)
        self._usage = ContainerUsage(Calls(engine, Rounds.TIMEOUT), self._containers.name, clock)
        self._limiter = Limiter(self._containers, self._usage, node.capacity[CPUS], clock)
        self.beside = DockerBeside(self._containers)
        self._known: dict[WorkerId, threading.Event] = {}  # told of in this life; the event: it is not wanted any more
        self._followers: dict[WorkerId, Follower] = {}
        self._ended: dict[WorkerId, End] = {}  # what was reported of their end, and stays true
        self._lock = threading.Lock()  # guards the three above
        self._told_at: float | None = None  # when the service first spoke of a worker, on the monotonic clock
        self._grace = Grace()
        self._rounds = Rounds(Containers(Calls(engine, Rounds.TIMEOUT), instance), self._root, self, self._grace)
        self._rounds.start()

    # --- the port

    def nodes(self) -> list[Node]:
        return [self._node]

    def start(self, launch: Launch) -> None:
        self._submit(launch.worker, self._start, launch)

    def adopt(self, worker: WorkerId, node: NodeName) -> None:  # noqa: ARG002 (there is only one node)
        self._submit(worker, self._follow, worker)

    def stop(self, worker: WorkerId, node: NodeName, grace: float) -> None:  # noqa: ARG002
        self._submit(worker, self._stop, worker, grace)
        self._unwanted(worker).set()  # a start that is under way ends early

    def pause(self, worker: WorkerId, node: NodeName) -> None:  # noqa: ARG002
        self._submit(worker, self._pause, worker)

    def resume(self, worker: WorkerId, node: NodeName) -> None:  # noqa: ARG002
        self._submit(worker, self._containers.resume, self._containers.name(worker))

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
        if worker in self._known:
            self._submit(worker, self._set_limits, worker, limits, automatic)

    def usage(self, worker: WorkerId, node: NodeName) -> Usage | None:  # noqa: ARG002
        return self._usage.read(worker) if worker in self._followers else None

    def has_checkpoint(self, job: JobId) -> bool:
        return self._site.has_checkpoint(job)

    def forget(self, job: JobId) -> None:
        self._lanes.submit(job, partial(self._patiently, partial(self._forget, job)))

    def close(self) -> None:
        self._closed.set()
        self._rounds.close()
        self._usage.close()
        for follower in self._all_followers():
            follower.close()
        self._lanes.close()
        self._containers.calls.close()

    # --- for the rounds

    def prepares(self, key: str) -> bool:
        """Whether the image with this key is being prepared."""
        return self._layers.being_made(key)

    def looks(self, who: str) -> bool:
        """Whether paths of the server are just being looked at for this worker."""
        return self._sight.in_use(who)

    def tidy_networks(self, found: Iterable[State], calls: Calls) -> None:
        self._networks.tidy(found, calls)

    def is_orphan(self, worker: WorkerId) -> bool:
        """Whether the service, which tells of all its workers when it begins, has had time to but said nothing."""
        told_at = self._told_at
        return worker not in self._known and told_at is not None and time.monotonic() - told_at > ORPHAN_AFTER

    def look_again(self, worker: WorkerId | None = None) -> None:
        """At one worker, or at all: their streams may have broken without a word."""
        for one, follower in list(self._followers.items()):
            if worker in (None, one):
                follower.look_again()

    def kill(self, worker: WorkerId) -> None:
        self._submit(worker, self._containers.kill, self._containers.name(worker), signal.SIGKILL)

    def save(self, worker: WorkerId) -> None:
        """Fetch the checkpoint of a worker that runs, if it is time."""
        paths = self._paths(worker)
        mine = self._site.shared is None and worker in self._followers and led(worker, paths)
        if mine and self._live.due(worker):
            self._lanes.submit(("checkpoint", worker), partial(self._live.fetch, worker, paths))

    # --- in the background, one at a time for each worker

    def _submit(self, worker: WorkerId, task: Callable[..., None], *args: object) -> None:
        self._unwanted(worker)
        self._lanes.submit(worker, partial(self._patiently, partial(task, *args)))

    def _unwanted(self, worker: WorkerId) -> threading.Event:
        with self._lock:
            self._told_at = self._told_at or time.monotonic()
            return self._known.setdefault(worker, threading.Event())

    def _patiently(self, task: Callable[[], None]) -> None:
        """Every task can be done again from its beginning."""
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
                begin(launch, paths, self._site, self._unwanted(worker))
        except Unreachable:
            raise
        except (Unwanted, Removed) as why:
            self._end(worker, Outcome(Ending.LOST, detail=str(why)))
        except (OSError, ExecutorError) as error:
            log.warning("worker %s could not be started: %s", worker, error)
            self._not_started(worker, concealed(str(error), launch.spec.mounts), _short_of(error))
        except Exception:  # a fault of ours must not leave a job that starts for ever
            log.exception("worker %s could not be started", worker)
            self._end(worker, Outcome(Ending.NOT_STARTED, detail="a fault of the service: its log says more"))
        else:
            self._follow(worker)

    def _not_started(self, worker: WorkerId, why: str, short_of: str) -> None:
        """`short_of`: what the service's machine, or the engine's, lacks, if that is the reason."""
        if short_of:
            self.shortage.note(short_of)
            self._emit(NodeSeen(self._clock.now(), replace(self._node, problem=short_of)))
        ending = Ending.NODE_FAULT if short_of else Ending.NOT_STARTED
        self._end(worker, Outcome(ending, detail=short_of or why))

    def _told_of_its_end(self, worker: WorkerId, paths: WorkerPaths) -> bool:
        """Whoever was told that it has ended, perhaps long ago, must not find it running."""
        if end := self._ended.get(worker) or read_end(paths):
            if paths.started.exists():
                self._emit_start(worker, paths)
            self._note_end(worker, end)
        return end is not None

    def _follow(self, worker: WorkerId) -> None:
        """Report what has become of a worker, and watch it if it still runs."""
        paths = self._paths(worker)
        if self._told_of_its_end(worker, paths):
            return
        if worker not in self._followers:
            state = self._containers.find(self._containers.name(worker))
            if state is None or state.status == CREATED:
                self._never_ran(worker, state)
                return
        self._emit_start(worker, paths)
        self._watch(worker)
        if worker.rank and read_end(paths.first):
            self._release(worker)

    def _emit_start(self, worker: WorkerId, paths: WorkerPaths) -> None:
        orders, notes = orders_of(paths), []
        if why := orders.get("why_shared"):
            notes.append(f"it shares the network of its server: {why}")
        if orders.get("bare"):
            notes.append("it begins anew: no checkpoint of it was brought to the service before")
        self._emit(WorkerStarted(self._ender.started_at(paths), worker, "; ".join(notes)))

    def _watch(self, worker: WorkerId) -> None:
        paths = self._paths(worker)
        if orders_of(paths).get("network") == OWN:
            self._networks.note(str(worker.of), str(worker))
        with self._lock:
            if worker in self._followers or self._closed.is_set():
                return
            output = partial(Output, paths.log, paths.anchors, self._log_cap)
            follower = Follower(worker, self._containers, output, self._on_end)
            self._followers[worker] = follower
        follower.start()

    def _never_ran(self, worker: WorkerId, state: State | None) -> None:
        """There is no container, or one that was never started, and now never will be."""
        if state:
            self._containers.remove(state.id)
        began = state is None and self._paths(worker).started.exists()
        why = REMOVED if began else "it was never started"
        self._end(worker, Outcome(Ending.LOST, detail=why))

    def _on_end(self, worker: WorkerId, state: State | None) -> None:
        """Called by the follower's thread, which has nothing else to do any more."""
        self._live.finish(worker)
        follower, paths = self._followers[worker], self._paths(worker)
        patience = Patience()
        while not self._closed.is_set():
            try:
                end = self._ender.collect(worker, paths, state, follower.silent, patience)
            except Unreachable:
                follower.silent = True
                self._closed.wait(_AGAIN)
            except (OSError, ExecutorError) as error:
                log.warning("the files of worker %s cannot be fetched now: %s", worker, error)
                self._closed.wait(_AFTER_A_FAULT)
            else:
                self._lanes.submit(worker, partial(self._note_end, worker, end))
                return

    def _end(self, worker: WorkerId, outcome: Outcome) -> None:
        """Write an end down, and report it."""
        end = End(outcome, self._clock.now())
        paths = self._paths(worker)
        if paths.folder.exists():
            with suppress(OSError):  # a full disk: then it is found out again by the next life
                write_end(paths, end)
        self._note_end(worker, end)

    def _note_end(self, worker: WorkerId, end: End) -> None:
        for part in (self._usage, self._live, self._grace):
            part.forget(worker)
        with self._lock:
            self._followers.pop(worker, None)
            self._ended[worker] = end
            if len(self._ended) > ENDS_KEPT:
                del self._ended[next(iter(self._ended))]
        self._emit(WorkerExited(self._clock.now() if end.at is None else end.at, worker, end.outcome))
        self._networks.let_go(str(worker.of), str(worker))
        if worker.rank == 0:
            for other in [one for one in list(self._followers) if one.of == worker.of]:
                self._release(other)

    def _release(self, worker: WorkerId) -> None:
        """A placeholder has nothing to wait for once worker 0 has ended, and cannot see that itself."""
        if carried_group(self._paths(worker).first):
            self._submit(worker, self._stop, worker, _PLACEHOLDERS_TIME)

    def _stop(self, worker: WorkerId, grace: float) -> None:
        paths = self._paths(worker)
        if worker in self._ended or self._told_of_its_end(worker, paths):
            return
        state = self._containers.find(self._containers.name(worker))
        if state is None or state.status == CREATED:
            if worker not in self._followers:
                self._never_ran(worker, state)
            return
        if state.alive:
            self._tell_to_end(worker, state, grace)
        if worker not in self._followers:
            self._follow(worker)

    def _tell_to_end(self, worker: WorkerId, state: State, grace: float) -> None:
        first = self._grace.give(worker, grace)
        if grace <= 0:
            self._containers.kill(state.id, signal.SIGKILL)
        elif first:
            self._containers.kill(state.id, signal.SIGTERM)
        self._rounds.wake()

    def _pause(self, worker: WorkerId) -> None:
        name = self._containers.name(worker)
        self._containers.pause(name)
        state = self._containers.find(name)
        if state and state.status == PAUSED:
            self._emit(WorkerPaused(self._clock.now(), worker))

    def _regroup(self, worker: WorkerId, group: Group) -> None:
        paths, name = self._paths(worker), self._containers.name(worker)
        state = self._containers.find(name)
        if not state or not state.alive or read_end(paths):
            return
        try:
            told = regroup(self._containers, paths, name, ids_of(paths), group)
        except Refused as refusal:  # it has just ended
            log.info("worker %s is not told of its group: %s", worker, refusal)
            return
        if carried_group(paths):  # also if it knew of the group: a crash may have come before its limits
            follow_group(told, self._limiter.present(worker, paths), partial(self._set_limits, worker, automatic=True))

    def _set_limits(self, worker: WorkerId, limits: Limits, automatic: bool) -> None:
        event = self._limiter.set(worker, self._paths(worker), limits) if worker in self._followers else None
        if event:
            self._emit(replace(event, automatic=automatic))

    def _forget(self, job: JobId) -> None:
        found = [state for state in self._containers.ours() if _job_of(state) == job]
        if any(state.alive for state in found):
            log.warning("job %s still runs: its folder is kept", job)
            return
        for state in found:
            self._containers.remove(state.id)
        forget_job(JobPaths.of(self._root, job))
        if self._site.shared:
            self._site.shared.forget(job)
        with self._lock:
            self._ended = {worker: end for worker, end in self._ended.items() if worker.job != job}
            self._known = {worker: event for worker, event in self._known.items() if worker.job != job}

    def _all_followers(self) -> list[Follower]:
        with self._lock:
            return list(self._followers.values())

    def _paths(self, worker: WorkerId) -> WorkerPaths:
        return WorkerPaths.of(self._root, worker)

    def _emit(self, event: Event) -> None:
        try:
            self._sink(event)
        except Exception:
            log.exception("nobody took %s", event)


def _short_of(error: OSError | ExecutorError) -> str:
    if isinstance(error, OSError):
        return shortage(error.errno)
    return (
        engine_shortage(str(error))
        if isinstance(error, Refused) and error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        else ""
    )


def _job_of(state: State) -> JobId | None:
    worker = worker_of(state.labels)
    return worker.job if worker else None
