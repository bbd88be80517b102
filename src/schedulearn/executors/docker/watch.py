"""Whether an engine answers: asked again and again by a thread of its own, so that no other engine waits for it."""

import logging
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from schedulearn.core.domain.events import NodeLost, NodeSeen
from schedulearn.core.domain.node import Device, Node, NodeState
from schedulearn.core.domain.ports import Clock, EventSink
from schedulearn.executors.docker.connect import Engine
from schedulearn.executors.docker.probe import devices_of, look

if TYPE_CHECKING:
    import docker

log = logging.getLogger(__name__)
PERIOD = 2.0  # seconds between two questions
ANSWER_WITHIN = 5.0  # seconds
LOST_AFTER = 10.0  # seconds without an answer
_DEVICES_EVERY = 30.0  # seconds: who else uses a GPU of this machine


class EngineWatch:
    """Posts NodeLost when the engine has not answered for a while, NodeSeen when it does again."""

    def __init__(
        self,
        engine: Engine,
        node: Node,
        sink: EventSink,
        clock: Clock,
        *,
        seen: Node | None = None,
        instance: str = "",
        gpus: bool = True,
        period: float = PERIOD,
        answer_within: float = ANSWER_WITHIN,
        lost_after: float = LOST_AFTER,
    ) -> None:
        """`seen` is the node as it was found just now, if it was.

        `gpus` is False where another node of the same machine gives out its GPUs.
        """
        self._engine, self._wanted, self._sink, self._clock = engine, node, sink, clock
        self._instance, self._gpus = instance, gpus
        self._period, self._answer_within, self._lost_after = period, answer_within, lost_after
        self._client: docker.DockerClient | None = None
        self._devices: tuple[Device, ...] | None = None
        self._devices_at = 0.0
        self._answered_at = time.monotonic()
        self._node = seen
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch-{node.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Returns at once; a question that is under way ends by its time-out."""
        self._stop.set()

    @property
    def node(self) -> Node | None:
        """As it was at the last answer, or lost; None as long as neither is known."""
        return self._node

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                found = self._look()
            except Exception as error:
                self._no_answer(self._engine.words(error))
            else:
                self._answered(found)
            self._stop.wait(self._period)
        self._drop_client()

    def _look(self) -> Node:
        if self._client is None:
            self._client = self._engine.client(self._answer_within)
        if self._gpus and self._devices_due():
            here = self._engine.address.on_this_machine
            self._devices = devices_of(self._client, self._wanted, here, self._instance)
            self._devices_at = time.monotonic()
        return look(self._client, self._wanted, self._devices or ())

    def _devices_due(self) -> bool:
        if self._devices is None:
            return True
        here = self._engine.address.on_this_machine
        return here and bool(self._devices) and time.monotonic() - self._devices_at >= _DEVICES_EVERY

    def _answered(self, found: Node) -> None:
        self._answered_at = time.monotonic()
        before, self._node = self._node, found
        if before is None or before.state is NodeState.LOST:
            self._post(NodeSeen(self._clock.now(), found))

    def _no_answer(self, why: str) -> None:
        self._drop_client()
        silent = time.monotonic() - self._answered_at
        lost = self._node is not None and self._node.state is NodeState.LOST
        if silent < self._lost_after or lost:
            return
        now = self._clock.now()
        self._node = replace(self._node or self._wanted, state=NodeState.LOST, problem=why, lost_at=now)
        log.warning("node %s is lost: %s", self._wanted.name, why)
        self._post(NodeLost(now, self._wanted.name, why))

    def _post(self, event: NodeSeen | NodeLost) -> None:
        if not self._stop.is_set():
            self._sink(event)

    def _drop_client(self) -> None:
        """A connection that failed is not used again."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):
                client.close()
