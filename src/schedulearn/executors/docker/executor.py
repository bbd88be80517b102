"""Runs workers as containers of one engine. What is true of them is in the engine and in the worker's folder."""

import logging
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.events import WorkerPaused
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.ports import Clock, EventSink, Launch
from schedulearn.core.domain.units import format_size
from schedulearn.core.domain.usage import Limits, Usage
from schedulearn.executors.common.archive import Entry, pack, read_file
from schedulearn.executors.common.base import LOG_CAP, BaseExecutor, Unreachable
from schedulearn.executors.common.control import LARGEST_ACK, Ack, led, read_ack
from schedulearn.executors.common.endings import End, read_end, write_end
from schedulearn.executors.common.instance import instance_of
from schedulearn.executors.common.paths import WorkerPaths, read_number, read_orders
from schedulearn.executors.common.shortage import engine_shortage
from schedulearn.executors.docker.calls import Calls, Refused
from schedulearn.executors.docker.connect import Engine
from schedulearn.executors.docker.containers import CREATED, PAUSED, Containers, State
from schedulearn.executors.docker.ending import REMOVED, Ender, Patience, user_of
from schedulearn.executors.docker.exec import DockerExec
from schedulearn.executors.docker.follower import Follower
from schedulearn.executors.docker.images import Images
from schedulearn.executors.docker.layers import Layers
from schedulearn.executors.docker.live import LiveCheckpoints
from schedulearn.executors.docker.mounts import HostPaths, concealed
from schedulearn.executors.docker.names import worker_of
from schedulearn.executors.docker.networks import OWN, Networks
from schedulearn.executors.docker.options import PLACES, limit_options
from schedulearn.executors.docker.output import Output
from schedulearn.executors.docker.rounds import Grace, Rounds
from schedulearn.executors.docker.rules import Rules
from schedulearn.executors.docker.shared import SharedCheckpoints
from schedulearn.executors.docker.starting import Site, begin
from schedulearn.executors.docker.usage import ContainerUsage, limits_of
from schedulearn.executors.kernel.groups import in_force

log = logging.getLogger(__name__)
WAITING = 256  # workers whose images are being fetched or prepared beside the lanes
ORPHAN_AFTER = 600.0  # seconds: a service whose database is slow may take its time to tell of all its workers
_AGAIN = 0.5  # seconds until an engine that did not answer is asked once more
_AFTER_A_FAULT = 5.0
_PLACEHOLDERS_TIME = 5.0  # seconds to end, once they are told
_USUAL = Rules()


class DockerExecutor(BaseExecutor[State, Follower]):
    """An engine that does not answer is asked until it does: only the service decides that a server is lost."""

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
        super().__init__(root, sink, clock, node, WAITING)
        self._log_cap = log_cap
        instance = instance_of(self._root)
        calls = Calls(engine)
        shared = SharedCheckpoints(Path(rules.shared_checkpoints), instance) if rules.shared_checkpoints else None
        self._containers = Containers(calls, instance)
        images, self._networks = Images(calls), Networks(calls, instance, rules)
        self._site = Site(
            self._root,
            self._containers,
            images,
            Layers(self._containers, images, self._networks, rules, self._closed),
            self._networks,
            HostPaths(self._containers, images),
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
        self.exec = DockerExec(self._containers)
        self._known: dict[WorkerId, threading.Event] = {}  # told of in this life; the event: it is not wanted any more
        self._told_at: float | None = None  # when the service first spoke of a worker, on the monotonic clock
        self._grace = Grace()
        self._rounds = Rounds(Containers(Calls(engine, Rounds.TIMEOUT), instance), self._site, self, self._grace)
        self._rounds.start()

    # --- the port, where it does more than others

    def stop(self, worker: WorkerId, node: NodeName, grace: float) -> None:
        super().stop(worker, node, grace)
        self._unwanted(worker).set()  # a start that is under way ends early

    def set_limits(self, worker: WorkerId, node: NodeName, limits: Limits, *, automatic: bool = False) -> None:
        if worker in self._known:
            super().set_limits(worker, node, limits, automatic=automatic)

    def has_checkpoint(self, job: JobId) -> bool:
        return self._site.has_checkpoint(job)

    def close(self) -> None:
        self._closed.set()
        self._rounds.close()
        self._usage.close()
        with self._lock:
            followers = list(self._watched.values())
        for follower in followers:
            follower.close()
        super().close()
        self._containers.calls.close()

    # --- for the rounds

    def is_orphan(self, worker: WorkerId) -> bool:
        """Whether the service, which tells of all its workers when it begins, has had time to but said nothing."""
        told_at = self._told_at
        return worker not in self._known and told_at is not None and time.monotonic() - told_at > ORPHAN_AFTER

    def look_again(self, worker: WorkerId | None = None) -> None:
        """At one worker, or at all: their streams may have broken without a word."""
        for one, follower in list(self._watched.items()):
            if worker in (None, one):
                follower.look_again()

    def kill(self, worker: WorkerId) -> None:
        self._submit(worker, self._containers.kill, self._containers.name(worker), signal.SIGKILL)

    def save(self, worker: WorkerId) -> None:
        """Fetch the checkpoint of a worker that runs, if it is time."""
        paths = self._paths(worker)
        mine = self._site.shared is None and worker in self._watched and led(worker, paths)
        if mine and self._live.due(worker):
            self._lanes.submit(("checkpoint", worker), partial(self._live.fetch, worker, paths))

    # --- start

    def _submit(self, worker: WorkerId, task: Callable[..., None], *args: object) -> None:
        self._unwanted(worker)
        super()._submit(worker, task, *args)

    def _unwanted(self, worker: WorkerId) -> threading.Event:
        with self._lock:
            self._told_at = self._told_at or time.monotonic()
            return self._known.setdefault(worker, threading.Event())

    def _begin(self, launch: Launch, paths: WorkerPaths) -> None:
        try:
            begin(launch, paths, self._site, self._unwanted(launch.worker))
        except (OSError, ExecutorError):
            raise
        except Exception as error:  # a fault of ours must not leave a job that starts for ever
            log.exception("worker %s could not be started", launch.worker)
            raise ExecutorError("a fault of the service: its log says more") from error

    def _reason(self, launch: Launch, error: OSError | ExecutorError) -> tuple[str, str]:
        why, short_of = super()._reason(launch, error)
        if isinstance(error, Refused) and error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            short_of = engine_shortage(why)
        return concealed(why, launch.spec.mounts), short_of

    # --- while it runs

    def _find(self, worker: WorkerId, paths: WorkerPaths) -> State | None:  # noqa: ARG002
        """One that was made, but never started, now never will be."""
        state = self._containers.find(self._containers.name(worker))
        return None if state is None or state.status == CREATED else state

    def _started_at(self, paths: WorkerPaths) -> float | None:
        return read_number(paths.started, "at")

    def _notes(self, paths: WorkerPaths) -> str:
        orders, notes = read_orders(paths), []
        if why := orders.get("why_shared"):
            notes.append(f"it shares the network of its server: {why}")
        if orders.get("bare"):
            notes.append("it begins anew: no checkpoint of it was brought to the service before")
        return "; ".join(notes)

    def _watch(self, worker: WorkerId, paths: WorkerPaths, found: State) -> None:  # noqa: ARG002
        if read_orders(paths).get("network") == OWN:
            self._networks.note(str(worker.of), str(worker))
        with self._lock:
            known = worker in self._watched or self._closed.is_set()
            if not known:
                output = partial(Output, paths.log, paths.anchors, self._log_cap)
                self._watched[worker] = Follower(worker, self._containers, output, self._on_end)
        if not known:
            self._watched[worker].start()
        if worker.rank and read_end(paths.first):
            self._release(worker)

    def _usage_of(self, worker: WorkerId, watch: Follower) -> Usage | None:  # noqa: ARG002
        return self._usage.read(worker)

    def _pause(self, worker: WorkerId) -> None:
        name = self._containers.name(worker)
        self._containers.pause(name)
        state = self._containers.find(name)
        if state and state.status == PAUSED:
            self._emit(WorkerPaused(self._clock.now(), worker))

    def _resume(self, worker: WorkerId) -> None:
        self._containers.resume(self._containers.name(worker))

    # --- limits and the control file

    def _limits_in_force(self, worker: WorkerId) -> Limits | None:
        told = self._containers.inspect(self._containers.name(worker))
        return limits_of(told["HostConfig"]) if told and told["State"]["Running"] else None

    def _put_limits(self, worker: WorkerId, limits: Limits) -> Limits:
        self._check_memory(worker, limits)
        name = self._containers.name(worker)
        try:
            with self._containers.calls.api() as api:
                api.update_container(name, **limit_options(limits))
                after = limits_of(api.inspect_container(name)["HostConfig"])
        finally:
            self._usage.refresh(worker)
        if not in_force(limits, after):
            raise ExecutorError(f"the engine took {limits}, but shows {after}")
        return after

    def _check_memory(self, worker: WorkerId, limits: Limits) -> None:
        """The kernel would not refuse, but kill."""
        used = self._usage.read(worker)
        if limits.memory is None or used is None or used.memory is None or used.memory <= limits.memory:
            return
        wanted, held = format_size(limits.memory), format_size(used.memory)
        raise ExecutorError(f"a memory limit of {wanted} is below the {held} that it holds")

    def _can_be_told(self, worker: WorkerId, paths: WorkerPaths) -> bool:
        state = self._find(worker, paths)
        return state is not None and state.alive and read_end(paths) is None

    def _send_control(self, worker: WorkerId, paths: WorkerPaths, text: bytes) -> None:
        """The job owns the file there: it is only written, and what counts is the service's copy."""
        entry = Entry(PLACES.control[1:], content=text, mode=0o644)
        self._containers.put(self._containers.name(worker), pack([entry], user_of(paths) or (0, 0)))

    def _ack(self, worker: WorkerId, paths: WorkerPaths) -> Ack | None:  # noqa: ARG002
        try:
            return read_ack(read_file(self._containers.get(self._containers.name(worker), PLACES.ack), LARGEST_ACK))
        except Refused:  # the job has removed it
            return None

    # --- the end

    def _tell_to_end(self, worker: WorkerId, paths: WorkerPaths, found: State, grace: float) -> None:  # noqa: ARG002
        if not found.alive:
            return
        first = self._grace.give(worker, grace)
        if grace <= 0:
            self._containers.kill(found.id, signal.SIGKILL)
        elif first:
            self._containers.kill(found.id, signal.SIGTERM)
        self._rounds.wake()

    def _on_end(self, worker: WorkerId, state: State | None) -> None:
        """Called by the follower's thread, which has nothing else to do any more."""
        self._live.finish(worker)
        follower, paths = self._watched[worker], self._paths(worker)
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

    def _end_of(self, worker: WorkerId, paths: WorkerPaths) -> End | None:
        if worker in self._watched:
            return None
        state = self._containers.find(self._containers.name(worker))
        if state and state.status != CREATED:
            return None  # it runs after all
        if state:
            self._containers.remove(state.id)
            paths.started.unlink(missing_ok=True)
        why = REMOVED if paths.started.exists() else "it was never started"
        return End(Outcome(Ending.LOST, detail=why))

    def _write_down(self, paths: WorkerPaths, end: End) -> None:
        if paths.folder.exists():
            with suppress(OSError):  # a full disk: then it is found out again by the next life
                write_end(paths, end)

    def _let_go(self, worker: WorkerId) -> None:
        for part in (self._usage, self._live, self._grace):
            part.forget(worker)

    def _note_end(self, worker: WorkerId, end: End) -> None:
        super()._note_end(worker, end)
        self._networks.let_go(str(worker.of), str(worker))
        if worker.rank == 0:
            for other in [one for one in list(self._watched) if one.of == worker.of]:
                self._release(other)

    def _release(self, worker: WorkerId) -> None:
        """A placeholder has nothing to wait for once worker 0 has ended, and cannot see that itself."""
        if read_orders(self._paths(worker).first).get("carries_group"):
            self._submit(worker, self._stop, worker, _PLACEHOLDERS_TIME)

    def _clear(self, job: JobId) -> bool:
        found = [state for state in self._containers.ours() if _job_of(state) == job]
        if any(state.alive for state in found):
            return False
        for state in found:
            self._containers.remove(state.id)
        if self._site.shared:
            self._site.shared.forget(job)
        with self._lock:
            self._known = {worker: event for worker, event in self._known.items() if worker.job != job}
        return True


def _job_of(state: State) -> JobId | None:
    worker = worker_of(state.labels)
    return worker.job if worker else None
