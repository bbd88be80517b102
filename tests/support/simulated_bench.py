"""A workbench for the simulated executor: whoever waits lets virtual time pass."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from schedulearn.core.domain.events import Event
from schedulearn.core.domain.group import Group
from schedulearn.core.domain.ids import WorkerId
from schedulearn.core.domain.ports import Launch
from support.bench import NODE, Recorder, Workbench
from support.deeds import GO_AFTER, Deed
from support.simulated_executor import SimulatedExecutor, World
from support.simulated_worker import Behaviour

STEP = 0.05  # seconds of virtual time between two looks
MOST_STEPS = 2000  # more are only made when something is broken


class VirtualRecorder(Recorder):
    def __init__(self, until: Callable[[Callable[[], Any], str], Any]) -> None:
        super().__init__()
        self._until = until

    def wait(self, kind: type[Event], worker: WorkerId, count: int = 1) -> Any:
        self._until(lambda: len(self.found(kind, worker)) >= count, f"{count} {kind.__name__} of {worker}")
        return self.found(kind, worker)[count - 1]


class SimulatedBench(Workbench):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.recorder: Recorder = VirtualRecorder(self.until)
        self.behaviours: dict[WorkerId, Behaviour] = {}
        self.begun: list[WorkerId] = []  # each time that one was really started
        self.world = World(self._behave, at=1_700_000_000.0)

    def _behave(self, launch: Launch) -> Behaviour:
        self.begun.append(launch.worker)
        return self.behaviours[launch.worker]

    def executor(self, **options: Any) -> SimulatedExecutor:
        return SimulatedExecutor(self.world, options.get("sink", self.recorder), [NODE])

    def doing(self, deed: Deed, **more: Any) -> Launch:
        launch = super().doing(deed, **more)
        self.behaviours[launch.worker] = deed.simulated
        return launch

    def until(self, true: Callable[[], Any], what: str = "") -> Any:
        for _ in range(MOST_STEPS):
            if value := true():
                return value
            self.world.advance(STEP)
        raise AssertionError(f"never came true: {what or true}")

    def pass_time(self, seconds: float) -> None:
        self.world.advance(seconds)

    def group(self, launch: Launch) -> Group:
        worker = self.world.running(launch.worker)
        return worker.group if worker and worker.group else Group(-1, ())

    def ready(self, launch: Launch) -> None:
        self.started(launch)

    def ticks(self, launch: Launch) -> int:
        worker = self.world.running(launch.worker)
        return int(worker.usage(self.world.now()).cpu_seconds / 0.01) if worker else 0

    def times_run(self, launch: Launch) -> int:
        return self.begun.count(launch.worker)

    def let_go(self, launch: Launch) -> None:
        self.world.advance(GO_AFTER)

    def jobs_kept(self) -> set[str]:
        return {str(job) for job in self.world.jobs()}
