"""Which nodes there are: this machine, and the engines that administrators added. Keeps one executor for each."""

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from schedulearn.core.domain.errors import SchedulearnError
from schedulearn.core.domain.events import DrainAsked, Event, NodeProbed, RemoveNodeAsked
from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.node import Node, NodeState
from schedulearn.core.domain.ports import Clock
from schedulearn.core.domain.resources import CPUS, GPUS, MEMORY, Resources
from schedulearn.executors.common.instance import instance_of
from schedulearn.executors.fleet import Fleet
from schedulearn.executors.kernel.machine import discover_node
from schedulearn.executors.process.executor import ProcessExecutor
from schedulearn.executors.process.view import isolation
from schedulearn.service.common.config import DataFolder, Options
from schedulearn.store import Request

if TYPE_CHECKING:
    from schedulearn.executors.docker.connect import Engine
    from schedulearn.executors.docker.executor import DockerExecutor
    from schedulearn.executors.docker.rules import Rules
    from schedulearn.executors.docker.watch import EngineWatch

_LOG = logging.getLogger(__name__)
LOCAL, LOCAL_DOCKER = NodeName("local"), NodeName("local-docker")
THIS_MACHINE = frozenset({LOCAL, LOCAL_DOCKER})  # what `up --executor` makes; they are not added or removed by hand
ISOLATION = "isolation"  # a setting: what separates plain processes
_SERVICE = "the service, as it was started with another --executor"


class NodeManager:
    """Adds nodes to the fleet and takes them out again, as the scheduler says."""

    def __init__(self, folder: DataFolder, options: Options, clock: Clock, post: Callable[[Event], None]) -> None:
        self.fleet = Fleet(post, clock)
        self._folder, self._options, self._clock, self._post = folder, options, clock, post
        self._local = {node.name: node for node in _local_nodes(options)}
        self._engines: dict[NodeName, tuple[Engine, EngineWatch]] = {}

    def check_local(self, known: Collection[NodeName]) -> None:
        """SchedulearnError if the engine of this machine cannot be used, unless it could before: it may come back."""
        node = self._local.get(LOCAL_DOCKER)
        if node is None or LOCAL_DOCKER in known:
            return
        from schedulearn.executors.docker.probe import probe

        engine = self._engine(node)
        try:
            report = probe(engine, node, self._clock)
        finally:
            engine.close()
        for note in report.notes:
            _LOG.warning("%s: %s", node.name, note)
        if report.problems:
            problems = "; ".join(problem for _, problem in report.problems)
            raise SchedulearnError(f"--executor {self._options.executor} does not work: {problems}")

    def isolation(self, own_users: str) -> list[str]:
        """What separates plain processes on this machine, in words; `own_users`: their uids."""
        node = self._local.get(LOCAL)
        return isolation(own_users, bool(node.devices)) if node else []

    # --- called by the scheduler's thread

    def ensure(self, saved: Iterable[Node], busy: Collection[NodeName]) -> list[Event]:
        """Make the fleet what the store says it is; what follows for nodes of this machine that are no longer wanted.

        One of those that is still `busy` stays, and takes nothing new.
        """
        wanted, events = dict(self._local), list[Event]()
        now = self._clock.now()
        for node in saved:
            if node.name not in THIS_MACHINE:
                wanted[node.name] = node
            elif node.name not in wanted and node.name in busy:
                wanted[node.name] = node
                events.append(DrainAsked(now, node.name, _SERVICE, True))
            elif node.name not in wanted:
                events.append(RemoveNodeAsked(now, node.name, _SERVICE, False))
        for name in set(self.fleet.names()) - set(wanted):
            self.remove(name)
        for node in wanted.values():
            if self.fleet.executor_of(node.name) is None:
                self.add(node)
        return events

    def add(self, node: Node, seen: Node | None = None) -> None:
        if node.executor == "process":
            self.fleet.add(node.name, ProcessExecutor(self._folder.root, self._post, self._clock, node))
            return
        from schedulearn.executors.docker.executor import DockerExecutor
        from schedulearn.executors.docker.watch import EngineWatch

        engine = self._engine(node)
        watch = EngineWatch(
            engine, node, self._post, self._clock, seen=seen, instance=self._instance(), gpus=self._has_gpus(node)
        )
        executor = DockerExecutor(self._folder.root, self._post, self._clock, node, engine, self._rules())
        self.fleet.add(node.name, executor, partial(_seen, watch, executor))
        self._engines[node.name] = engine, watch
        watch.start()

    def remove(self, name: NodeName) -> None:
        self.fleet.remove(name)
        if name in self._engines:
            engine, watch = self._engines.pop(name)
            watch.close()
            threading.Thread(target=engine.close, daemon=True).start()  # it may be in the middle of a login

    def examine(self, request: Request) -> None:
        """Look at the engine that is to be added; the answer arrives as an event. Returns at once."""
        threading.Thread(target=self._examine, args=(request,), name="probe", daemon=True).start()

    def close(self) -> None:
        for _, watch in self._engines.values():
            watch.close()
        self.fleet.close()
        for engine, _ in self._engines.values():
            engine.close()

    # --- helpers

    def _examine(self, request: Request) -> None:
        from schedulearn.executors.docker.probe import probe

        data = request.data
        wanted = Node(
            NodeName(data["name"]),
            executor="docker",
            address=data["address"],
            default_image=data["image"] or self._options.image,
            labels=tuple((str(key), str(value)) for key, value in data["labels"]),
        )
        engine = self._engine(wanted)
        try:
            report = probe(engine, wanted, self._clock, instance=self._instance(), gpus=self._has_gpus(wanted))
        finally:
            engine.close()
        self._post(
            NodeProbed(
                self._clock.now(),
                wanted.name,
                report.node,
                request.by,
                data["request"],
                tuple(report.problems),
                (*report.notes, *self._notes(wanted)),
            )
        )

    def _notes(self, node: Node) -> list[str]:
        if not node.address.startswith("unix://") or LOCAL not in self._local:
            return []
        return ["node local is the same machine: drain one of the two, or both give out the same cores and memory"]

    def _has_gpus(self, node: Node) -> bool:
        """GPUs are given out once: if this machine's processes have them, containers have not."""
        taken = LOCAL in self._local and self._local[LOCAL].devices
        return not (taken and node.address.startswith("unix://"))

    def _instance(self) -> str:
        return instance_of(self._folder.root.absolute())

    def _rules(self) -> "Rules":
        from schedulearn.executors.docker.rules import Rules

        shared = self._options.shared_checkpoints
        return Rules(
            mounts=self._options.allow_mounts,
            shared_checkpoints=str(shared) if shared else "",
            networks=self._options.networks,
            host_network=self._options.host_network,
            setup_seconds=self._options.setup_time,
        )

    def _engine(self, node: Node) -> "Engine":
        from schedulearn.executors.docker.connect import Engine

        return Engine(node.address, self._folder.tls)


def _seen(watch: "EngineWatch", executor: "DockerExecutor") -> list[Node]:
    """As its engine says, unless the service itself can start nothing there."""
    if watch.node is None or watch.node.state is NodeState.LOST:
        return [watch.node] if watch.node else []
    return [replace(watch.node, problem=executor.shortage.now())]


def _local_nodes(options: Options) -> list[Node]:
    """This machine: as one node, or as two that share it."""
    here = discover_node(LOCAL)
    socket = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    docker = Node(LOCAL_DOCKER, "docker", address=socket, default_image=options.image)
    if options.executor == "process":
        return [here]
    if options.executor == "docker":
        return [docker]
    half = Resources({CPUS: here.capacity[CPUS] / 2, MEMORY: here.capacity[MEMORY] / 2})
    capacity = here.capacity - Resources({GPUS: here.capacity[GPUS]})  # containers isolate them better
    return [replace(here, capacity=capacity, devices=(), reserved=half), replace(docker, reserved=half)]
