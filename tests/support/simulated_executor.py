"""The executor port in virtual time: the commands of the live service, carried out by workers that are numbers.

It runs whatever is written against `domain.ports.Executor`, in no time and the same each time; the contract test
holds it to what the real executors do.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence

from schedulearn.core.domain.events import Event, LimitsSet, WorkerExited, WorkerPaused, WorkerStarted
from schedulearn.core.domain.group import Group
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.ports import EventSink, Launch
from schedulearn.core.domain.usage import USUAL_WEIGHT, Limits, Usage
from support.simulated_worker import Behaviour, SimulatedWorker


class World:
    """Virtual time and all that lives in it: workers outlive the executor that started them, as machines do.

    Implements `domain.ports.Clock`. It has no threads: nothing happens but in a call.
    """

    def __init__(self, behave: Callable[[Launch], Behaviour], at: float = 0.0) -> None:
        """`behave` says what the worker of a launch will do."""
        self._behave, self._now = behave, at
        self._workers: dict[WorkerId, SimulatedWorker] = {}
        self._checkpoints: set[JobId] = set()
        self._news: deque[tuple[EventSink, Event]] = deque()
        self.watchers: list[Callable[[WorkerId], None]] = []  # told of each end

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass: whoever is due ends, and whatever was to be told is told, in the order of time.

        A sink may give new commands. What they bring about within these seconds is part of them.
        """
        if not 0 <= seconds < math.inf:
            raise ValueError(f"time cannot pass by {seconds} seconds")
        self.advance_to(self._now + seconds)

    def advance_to(self, until: float) -> None:
        self._tell()
        while (due := self.next_end()) <= until:
            self._now = max(self._now, due)
            self._end_due()
            self._tell()
        self._now = until

    def next_end(self) -> float:
        """When the first worker ends if it is left alone; inf: none does."""
        return min((worker.due() for worker in self._workers.values()), default=math.inf)

    def launch(self, launch: Launch) -> None:
        """Start the worker, unless it was before."""
        if launch.worker not in self._workers:
            limits = Limits(launch.cpu_limit, USUAL_WEIGHT, launch.spec.resources.memory)
            worker = self._workers[launch.worker] = SimulatedWorker(self._behave(launch), limits, self._now)
            if launch.group:
                worker.regroup(self._now, launch.worker.rank, launch.group)

    def find(self, worker: WorkerId) -> SimulatedWorker | None:
        return self._workers.get(worker)

    def running(self, worker: WorkerId) -> SimulatedWorker | None:
        found = self.find(worker)
        return found if found and found.runs else None

    def jobs(self) -> set[JobId]:
        """Of which anything is kept."""
        return {worker.job for worker in self._workers}

    def has_checkpoint(self, job: JobId) -> bool:
        return job in self._checkpoints

    def forget(self, job: JobId) -> None:
        """Nothing happens if it still runs."""
        own = {worker: found for worker, found in self._workers.items() if worker.job == job}
        if not any(found.runs for found in own.values()):
            self._workers = {worker: found for worker, found in self._workers.items() if worker not in own}
            self._checkpoints.discard(job)

    def post(self, sink: EventSink, event: Event) -> None:
        """To be told when time passes, after all that was posted before."""
        self._news.append((sink, event))

    def _end_due(self) -> None:
        for number, worker in list(self._workers.items()):
            if worker.due() <= self._now:
                worker.end_now()
                if worker.end and worker.end.saved:
                    self._checkpoints.add(number.job)
                for watcher in self.watchers:
                    watcher(number)

    def _tell(self) -> None:
        while self._news:
            sink, event = self._news.popleft()
            sink(event)


class SimulatedExecutor:
    """Implements `domain.ports.Executor`. A command takes effect at once; its events arrive when time passes."""

    def __init__(self, world: World, sink: EventSink, nodes: Sequence[Node]) -> None:
        self._world, self._sink, self._nodes = world, sink, list(nodes)
        self._watched: set[WorkerId] = set()  # running
        self._ended: set[WorkerId] = set()  # whose end was reported
        self._closed = False
        world.watchers.append(self._on_end)

    def nodes(self) -> list[Node]:
        return list(self._nodes)

    def start(self, launch: Launch) -> None:
        self._world.launch(launch)
        self._follow(launch.worker)

    def adopt(self, worker: WorkerId, node: NodeName) -> None:
        self._follow(worker)

    def stop(self, worker: WorkerId, node: NodeName, grace: float) -> None:
        if found := self._world.running(worker):
            found.stop(self._world.now(), grace)
        if worker not in self._watched and worker not in self._ended:
            self._follow(worker)

    def pause(self, worker: WorkerId, node: NodeName) -> None:
        if found := self._world.running(worker):
            found.pause(self._world.now())
            self._emit(WorkerPaused(self._world.now(), worker))

    def resume(self, worker: WorkerId, node: NodeName) -> None:
        if found := self._world.running(worker):
            found.resume(self._world.now())

    def regroup(self, worker: WorkerId, node: NodeName, group: Group) -> None:
        if found := self._world.running(worker):
            found.regroup(self._world.now(), worker.rank, group)

    def set_batch(self, worker: WorkerId, node: NodeName, batch: int) -> None:
        """What is simulated here has no batches."""

    def set_limits(self, worker: WorkerId, node: NodeName, limits: Limits, *, automatic: bool = False) -> None:
        found = self._world.running(worker)
        if found and worker in self._watched and limits.over(found.limits) != found.limits:
            problem = found.set_limits(self._world.now(), limits)
            now = limits if problem else found.limits
            self._emit(LimitsSet(self._world.now(), worker, now, problem, automatic=automatic))

    def usage(self, worker: WorkerId, node: NodeName) -> Usage | None:
        found = self._world.running(worker)
        return found.usage(self._world.now()) if found and worker in self._watched else None

    def has_checkpoint(self, job: JobId) -> bool:
        return self._world.has_checkpoint(job)

    def forget(self, job: JobId) -> None:
        self._world.forget(job)
        if job not in self._world.jobs():
            self._ended = {worker for worker in self._ended if worker.job != job}

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._world.watchers.remove(self._on_end)

    def _follow(self, worker: WorkerId) -> None:
        """Report what has become of a worker, and watch it if it still runs."""
        found = self._world.find(worker)
        if found and found.started_at is not None:
            self._emit(WorkerStarted(found.started_at, worker))
        if found and found.runs:
            self._watched.add(worker)
        else:
            self._report_end(worker)

    def _on_end(self, worker: WorkerId) -> None:
        if worker in self._watched:
            self._report_end(worker)

    def _report_end(self, worker: WorkerId) -> None:
        self._watched.discard(worker)
        self._ended.add(worker)
        found = self._world.find(worker)
        if found and found.end:
            self._emit(WorkerExited(found.end.at, worker, found.end.outcome))
        else:
            self._emit(WorkerExited(self._world.now(), worker, Outcome(Ending.LOST, detail="it was never started")))

    def _emit(self, event: Event) -> None:
        self._world.post(self._hand_over, event)

    def _hand_over(self, event: Event) -> None:
        if not self._closed:
            self._sink(event)
