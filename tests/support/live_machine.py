"""One machine of the service with its share loop, without threads: an engine and jobs by hand, and time, too."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from schedulearn.core.domain.events import LimitsSet, Shared
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.job import Accrual
from schedulearn.core.domain.usage import Limits, Usage
from schedulearn.core.policies.share.division import max_min
from schedulearn.core.policies.sharing import Share
from schedulearn.service.share.container_monitor import LiveContainerMonitor, WorkLeft
from schedulearn.service.share.machine import SharedMachine
from schedulearn.service.share.snapshots import JobSnapshot, MachineSnapshot
from schedulearn.store import CurvePoint, Mark, News, Progress
from support.builders import job
from support.clock import HandClock

NAME = NodeName("m")


class Engine:
    """Holds workers to limits and counts what they use. Implements as much of `Executor` as a share loop needs."""

    def __init__(self, clock: HandClock) -> None:
        self._clock = clock
        self.used: dict[WorkerId, float] = {}  # core-seconds of those that run
        self.held: dict[WorkerId, float] = {}  # cores
        self.asked: list[LimitsSet] = []
        self.refuses: set[WorkerId] = set()
        self.is_away = False  # it knows nobody, and what it is told is lost

    def usage(self, worker: WorkerId, node: NodeName) -> Usage | None:
        if self.is_away or worker not in self.used:
            return None
        return Usage(self._clock.now(), self.used[worker], limits=Limits(cpus=self.held[worker]))

    def set_limits(self, worker: WorkerId, node: NodeName, limits: Limits, *, automatic: bool = False) -> None:
        assert limits.cpus is not None
        if self.is_away:
            return
        problem = "no control groups" if worker in self.refuses else "" if worker in self.used else "it has ended"
        if not problem:
            self.held[worker] = limits.cpus
        self.asked.append(LimitsSet(self._clock.now(), worker, limits, problem, automatic=automatic))


class Values:
    """What jobs have reported. Implements as much of `Store` as a share loop needs."""

    def __init__(self) -> None:
        self.points: dict[JobId, list[CurvePoint]] = {}

    def news(self, marks: Mapping[JobId, Mark]) -> dict[JobId, News]:
        return {number: self._news(number, mark) for number, mark in marks.items() if self._count(number) > mark.known}

    def last_succeeded(self) -> None:
        return None

    def _count(self, number: JobId) -> int:
        return len(self.points.get(number, ()))

    def _news(self, number: JobId, mark: Mark) -> News:
        points = self.points[number]
        newest = points[-1]
        progress = Progress(newest.step, mark.metric, newest.value, (), newest.at, len(points))
        return News(progress, [point for point in points[mark.known :] if point.at >= mark.since])


@dataclass
class Job:
    """One that runs there. Amounts are cores, of all its workers together."""

    here: JobSnapshot
    wants: float  # that it would use
    reports: list[float] = field(default_factory=list)

    @property
    def allowed(self) -> float:
        return self.here.cpus * len(self.here.workers)


class LiveMachine:
    """`settle` lets the loop look until nothing is left to do at this moment, as its thread does."""

    def __init__(self, stage: Share | None, name: str, cores: float = 4.0) -> None:
        self.stage, self.stage_name, self.cores = stage, name, cores
        self.clock = HandClock()
        self.engine, self.values = Engine(self.clock), Values()
        self.jobs: dict[int, Job] = {}
        self.posted: list[Shared] = []
        self.wake_at: float | None = None
        self.live()

    def live(self) -> None:
        """Another life of the service: what it knows is what was written down."""
        monitor = LiveContainerMonitor(NAME, self.values, self.engine, WorkLeft(self.values))  # type: ignore[arg-type]
        saved = self.posted[-1].memory if self.posted else None
        self.machine = SharedMachine(NAME, monitor, self.engine, self.clock, self.posted.append, saved)  # type: ignore[arg-type]
        self.machine.follow(self.stage, self.stage_name)
        if self.jobs:
            self.settle()

    # --- what happens

    def arrive(
        self,
        number: int,
        *,
        workers: int = 1,
        allowed: float = 4.0,
        least: float = 0.0,
        wants: float = 4.0,
        **spec: Any,
    ) -> None:
        ids = tuple(WorkerId(JobId(number), 1, rank) for rank in range(workers))
        about = job(number, **spec)
        here = JobSnapshot(about.id, self.clock.now(), ids, allowed / workers, least, Accrual(), about)
        self.jobs[number] = Job(here, wants)
        for worker in ids:
            self.engine.used[worker], self.engine.held[worker] = 0.0, here.cpus
        self.settle()

    def leave(self, number: int) -> None:
        """It is being stopped, and saves."""
        leaver = self.jobs.pop(number)
        self.settle()
        for worker in leaver.here.workers:
            assert worker in self.engine.refuses or self.engine.held[worker] == leaver.here.cpus, "it saves quickly"
            del self.engine.used[worker], self.engine.held[worker]

    def report(self, values: Mapping[int, float | None]) -> None:
        for number, value in values.items():
            if value is not None:
                points = self.values.points.setdefault(JobId(number), [])
                points.append(CurvePoint(len(points) + 1, value, self.clock.now()))

    def pass_time(self, seconds: float) -> None:
        jobs = list(self.jobs.values())
        shares = max_min(self.cores, [min(each.wants, self.held(each)) for each in jobs])
        for each, share in zip(jobs, shares, strict=True):
            for worker in each.here.workers:
                self.engine.used[worker] += share * seconds / len(each.here.workers)
        self.clock.pass_time(seconds)

    def interval(self, values: Mapping[int, float | None]) -> None:
        """Until the loop wants to look again; half-way jobs report."""
        assert self.wake_at is not None
        pause = self.wake_at - self.clock.now()
        self.pass_time(pause / 2)
        self.report(values)
        self.pass_time(self.wake_at - self.clock.now())
        self.settle()

    def settle(self) -> None:
        for _ in range(10):
            self.machine.tell(MachineSnapshot(self.cores, tuple(each.here for each in self.jobs.values())))
            answered = len(self.engine.asked)
            self.wake_at = self.machine.look()
            answers = [event for event in self.engine.asked[answered:] if self.machine.answered(event)]
            if not any(event.problem for event in answers):
                return
        raise AssertionError("it is asked for the same again and again, without any time passing")

    # --- what came of it

    def held(self, one: Job) -> float:
        """What the kernel lets it use."""
        return sum(self.engine.held[worker] for worker in one.here.workers)

    def notes(self, kind: str) -> list[Any]:
        return [note for event in self.posted for note in event.notes if note.kind == kind]

    def decisions(self) -> list[tuple[float, str, float | None]]:
        return [(event.at, str(event.worker), event.limits.cpus) for event in self.engine.asked]
