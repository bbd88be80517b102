"""An executor that runs nothing: it writes down what it is told, and the test says what happens."""

from collections.abc import Callable

from schedulearn.core.domain.events import Event, WorkerExited, WorkerPaused, WorkerStarted
from schedulearn.core.domain.group import Group
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.outcome import Outcome
from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.usage import Limits, Usage
from support.builders import OK


class FakeExecutor:
    """`calls` are tuples such as ("start", "1.1.0") or ("stop", "1.1.0", 30.0)."""

    def __init__(self, *nodes: Node) -> None:
        self.has = list(nodes)
        self.calls: list[tuple[object, ...]] = []
        self.launches: dict[str, Launch] = {}
        self.used: dict[str, Usage] = {}  # what `usage` answers
        self.sink: Callable[[Event], None] = lambda event: None

    # --- the port

    def nodes(self) -> list[Node]:
        return list(self.has)

    def start(self, launch: Launch) -> None:
        self.launches[str(launch.worker)] = launch
        self.calls.append(("start", str(launch.worker)))

    def adopt(self, worker: WorkerId, node: NodeName) -> None:
        self.calls.append(("adopt", str(worker)))

    def stop(self, worker: WorkerId, node: NodeName, grace: float) -> None:
        self.calls.append(("stop", str(worker), grace))

    def pause(self, worker: WorkerId, node: NodeName) -> None:
        self.calls.append(("pause", str(worker)))

    def resume(self, worker: WorkerId, node: NodeName) -> None:
        self.calls.append(("resume", str(worker)))

    def regroup(self, worker: WorkerId, node: NodeName, group: Group) -> None:
        self.calls.append(("regroup", str(worker), group.generation, group.members))

    def set_batch(self, worker: WorkerId, node: NodeName, batch: int) -> None:
        self.calls.append(("set_batch", str(worker), batch))

    def set_limits(self, worker: WorkerId, node: NodeName, limits: Limits, *, automatic: bool = False) -> None:
        self.calls.append(("set_limits", str(worker), limits))

    def usage(self, worker: WorkerId, node: NodeName) -> Usage | None:
        return self.used.get(str(worker))

    def has_checkpoint(self, job: JobId) -> bool:
        return False

    def forget(self, job: JobId) -> None:
        self.calls.append(("forget", job))

    def close(self) -> None:
        pass

    # --- what the test says

    def started(self, worker: str, at: float) -> None:
        self.sink(WorkerStarted(at, WorkerId.parse(worker)))

    def paused(self, worker: str, at: float) -> None:
        self.sink(WorkerPaused(at, WorkerId.parse(worker)))

    def exited(self, worker: str, at: float, outcome: Outcome = OK) -> None:
        self.sink(WorkerExited(at, WorkerId.parse(worker), outcome))

    def take_calls(self) -> list[tuple[object, ...]]:
        calls, self.calls = self.calls, []
        return calls
