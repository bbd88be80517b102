"""Nodes, as the API offers them: what there is, and adding, changing and removing servers."""

import re
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from schedulearn.core.domain.errors import Conflict, InvalidSpec, NotFound
from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.node import GPU_TYPE, NodeState
from schedulearn.core.domain.resources import Resources
from schedulearn.executors.docker.address import parse_address
from schedulearn.service.common.auth import Caller
from schedulearn.service.gateway.views import NodeView
from schedulearn.service.nodes.node_manager import ISOLATION, THIS_MACHINE
from schedulearn.store import Store
from schedulearn.wire import types

PATIENCE = 90.0  # seconds for the scheduler to look at an engine; each step of that has a time-out of its own
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
LABEL_NAME = r"[a-z0-9][a-z0-9_./-]{0,62}"
MOST_LABELS = 32
_VALUE = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{0,200}")
_CONTAINERS = ("containers: own uids, files, processes and GPUs", "no capabilities, no new privileges")


@dataclass(frozen=True, slots=True)
class NewNode:
    """A server as an administrator describes it."""

    address: str
    name: str | None = None  # None: after its host
    image: str = ""  # "": the one that the service was started with
    gpu_type: str | None = None  # what its GPUs are called; engines do not tell
    labels: Mapping[str, str] = field(default_factory=dict)


class Servers:
    def __init__(
        self,
        store: Store,
        wake: Callable[[], None],
        clock: Callable[[], float],
        scheduler_runs: Callable[[], bool],
    ) -> None:
        self._store, self._wake, self._clock = store, wake, clock
        self._scheduler_runs, self._patience = scheduler_runs, PATIENCE

    # --- reading

    def views(self) -> list[NodeView]:
        nodes, leases = self._store.list_nodes(), self._store.leases()
        storage, shares = self._store.setting("storage", {}), self._store.shares()
        processes = self._store.setting(ISOLATION, [])
        views = []
        for node in nodes:
            here = [lease for lease in leases if lease.node == node.name]
            held = sum((lease.amounts for lease in here), Resources())
            views.append(
                NodeView(
                    node,
                    node.usable - held,
                    held,
                    tuple(sorted({lease.worker.job for lease in here})),
                    {device: lease.worker.job for lease in here for device in lease.devices},
                    storage.get(node.name),
                    _sharing(shares[node.name]) if node.name in shares else None,
                    processes if node.executor == "process" else _CONTAINERS,
                )
            )
        return views

    def view(self, name: NodeName) -> NodeView:
        found = next((view for view in self.views() if view.node.name == name), None)
        if found is None:
            raise NotFound(f"there is no node {name!r}")
        return found

    # --- asking

    def add(self, caller: Caller, new: NewNode) -> tuple[NodeView, list[str]]:
        """Have its engine looked at, and add it if it can be used; with what its administrator should know."""
        caller.must_be_admin()
        name = self._name_for(new)
        labels = checked_labels({**new.labels, **({GPU_TYPE: new.gpu_type} if new.gpu_type else {})})
        if not self._scheduler_runs():
            raise Conflict("no scheduler runs that could look at the server: start it first")
        after, number = self._store.last_event_serial(), uuid.uuid4().hex
        data = {"request": number, "name": name, "address": str(parse_address(new.address)), "image": new.image}
        self._ask("node_add", {**data, "labels": labels}, caller)
        answer = self._wait_for(after, number)
        if "problems" in answer:
            first = answer["problems"][0]
            raise InvalidSpec(first["field"], "; ".join(p["problem"] for p in answer["problems"]))
        return self.view(name), list(answer["notes"])

    def drain(self, caller: Caller, name: NodeName, drain: bool) -> NodeView:
        """The answer shows what was asked for, whenever the scheduler takes it up."""
        view = self._administered(caller, name)
        self._ask("drain", {"node": name, "drain": drain}, caller)
        node = replace(view.node, drain=drain)
        if node.state in (NodeState.UP, NodeState.DRAINING, NodeState.PAUSED):
            node = replace(node, state=node.awake_state)
        return replace(view, node=node)

    def label(self, caller: Caller, name: NodeName, changes: Mapping[str, str | None]) -> NodeView:
        """Set labels; None takes one away, all others stay."""
        view = self._administered(caller, name)
        both = {**dict(view.node.labels), **changes}
        labels = checked_labels({key: value for key, value in both.items() if value is not None})
        self._ask("node_labels", {"node": name, "labels": labels}, caller)
        return replace(view, node=view.node.labelled(labels))

    def remove(self, caller: Caller, name: NodeName, force: bool) -> NodeView:
        view = self._administered(caller, name)
        if name in THIS_MACHINE:
            raise Conflict(f"node {name} is the service's own machine: `up --executor` decides what runs there")
        if view.jobs and not force:
            jobs = ", ".join(str(job) for job in view.jobs)
            raise Conflict(f"jobs run on node {name} ({jobs}): drain it and wait, or use force to queue them again")
        self._ask("node_remove", {"node": name, "force": force}, caller)
        return replace(view, node=replace(view.node, state=NodeState.REMOVING))

    # --- helpers

    def _administered(self, caller: Caller, name: NodeName) -> NodeView:
        caller.must_be_admin()
        return self.view(name)

    def _name_for(self, new: NewNode) -> NodeName:
        name = new.name or parse_address(new.address).default_name
        if not NAME.fullmatch(name):
            allowed = "letters, digits, dots, dashes and underscores, at most 64"
            raise InvalidSpec("name", f"{name!r} is no name for a node", allowed)
        if name in THIS_MACHINE:
            raise InvalidSpec("name", f"{name!r} is the service's own machine", "another name")
        if any(node.name == name for node in self._store.list_nodes()):
            raise Conflict(f"there is a node {name} already: choose another name, or remove that one first")
        return NodeName(name)

    def _wait_for(self, after: int, number: str) -> dict[str, Any]:
        deadline, pause = time.monotonic() + self._patience, 0.02
        while time.monotonic() < deadline:
            for stored in self._store.events_after(after):
                after = stored.serial
                if stored.event.data.get("request") == number:
                    return dict(stored.event.data)
            time.sleep(pause)
            pause = min(2 * pause, 0.5)
        raise Conflict(f"the server was not looked at within {self._patience:g} s; see whether it appears among nodes")

    def _ask(self, kind: str, data: Mapping[str, Any], caller: Caller) -> None:
        self._store.add_request(kind, None, data, caller.name, self._clock())
        self._wake()


def _sharing(memory: Mapping[str, Any]) -> types.Sharing:
    """From what the node's share loop remembers."""
    limits = {job: cores for job, (_, cores) in memory["limits"].items()}
    return types.Sharing(stage=memory["stage"], limits=limits, problem=memory.get("problem", ""))


def checked_labels(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """In the order of their names; InvalidSpec if one is not allowed."""
    for key, value in labels.items():
        if not re.fullmatch(LABEL_NAME, key):
            allowed = "lower-case letters, digits, dots, dashes, slashes and underscores, at most 63"
            raise InvalidSpec("labels", f"{key[:80]!r} is no name for a label", allowed)
        if not _VALUE.fullmatch(value):
            raise InvalidSpec(f"labels.{key}", "the value cannot be kept", "one line of at most 200 characters")
    if len(labels) > MOST_LABELS:
        raise InvalidSpec("labels", f"{len(labels)} labels are too many", f"at most {MOST_LABELS}")
    return tuple(sorted(labels.items()))
