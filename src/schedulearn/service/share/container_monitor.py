"""FlowCon's container monitor: what each container of one machine uses and achieves."""

import logging
import math
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.ports import Executor
from schedulearn.core.domain.usage import Usage
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.core.policies.sharing import Container, Left, Values
from schedulearn.service.common.repeating import log_fault
from schedulearn.service.learn.estimator import Estimator
from schedulearn.service.learn.pace import StepCost
from schedulearn.service.share.snapshots import JobSnapshot
from schedulearn.store import CurvePoint, Mark, News, Progress, Store

_LOG = logging.getLogger(__name__)
_MB = 1e6  # bytes
_MOST_REPORTS = 1000  # looks whose values are remembered: a stage asks for those since it last measured


class WorkLeft:
    """How much work jobs have left, for all machines. Any thread may ask."""

    def __init__(self, store: Store) -> None:
        self._estimator = Estimator(store)
        self._lock = threading.Lock()
        self._stale = threading.Event()

    def refresh(self) -> None:
        """Jobs have ended since. Never waits, not even while another thread asks."""
        self._stale.set()

    def by_steps(self, job: Job, progress: Progress | None, used: float, per_step: float | None) -> Estimate | None:
        """Core-seconds."""
        with self._lock:
            return self._current().work(job, progress, used, per_step)

    def by_others(self, job: Job, now: float) -> Estimate | None:
        """Seconds, by jobs like it."""
        with self._lock:
            return self._current().remaining(job, None, now)

    def _current(self) -> Estimator:
        if self._stale.is_set():
            self._stale.clear()
            self._estimator.refresh()
        return self._estimator


@dataclass(frozen=True, slots=True)
class _Reports:
    """Values of the metric that came between two looks."""

    at: float
    total: float
    count: int
    first: float
    last: float


@dataclass(slots=True)
class _Measured:
    """What was measured of a container so far."""

    here: JobSnapshot
    cost: StepCost
    used: dict[WorkerId, float] = field(default_factory=dict)  # core-seconds, also of workers that have left
    usage: dict[WorkerId, Usage] = field(default_factory=dict)  # the latest
    progress: Progress | None = None
    reports: list[_Reports] = field(default_factory=list)  # one for each look that found new ones

    @property
    def cpu_seconds(self) -> float:
        return sum(self.used.values())


class LiveContainerMonitor:
    """Of one machine, as its stage sees it (`policies.sharing.ShareNode`); its loop alone calls it."""

    def __init__(self, name: NodeName, store: Store, executor: Executor, work_left: WorkLeft) -> None:
        self.name, self.cores, self.now = name, 0.0, 0.0
        self._store, self._executor, self._work_left = store, executor, work_left
        self._containers: dict[JobId, _Measured] = {}
        self._shown: Sequence[Container] = ()

    def look(self, jobs: Iterable[JobSnapshot], now: float) -> None:
        """Measure all that are there."""
        self.now = now
        self._containers = {here.id: self._renewed(here) for here in jobs}
        for container in self._containers.values():
            self._count(container)
        found = self._store.news({number: _mark(each) for number, each in self._containers.items()})
        for number, news in found.items():
            _report(self._containers[number], news, now)

    def usage(self, job: JobId, worker: WorkerId) -> Usage | None:
        return self._containers[job].usage.get(worker)

    def show(self, cores: float, containers: Sequence[Container]) -> None:
        """What the stage is asked about now."""
        self.cores, self._shown = cores, containers

    # --- what a stage is told

    def containers(self) -> Sequence[Container]:
        return self._shown

    def cpu_seconds(self, job: JobId) -> float:
        return self._containers[job].cpu_seconds

    def other_use(self, job: JobId) -> dict[str, float]:
        """Of its present workers; without what is not measured of one of them."""
        usage = list(self._containers[job].usage.values())
        amounts = {
            "memory": [each.memory for each in usage],
            "block": [_sum(each.read_bytes, each.written_bytes) for each in usage],
            "network": [_sum(each.received_bytes, each.sent_bytes) for each in usage],
        }
        return {name: sum(each or 0 for each in of) / _MB for name, of in amounts.items() if of and None not in of}

    def evaluation(self, job: JobId, since: float) -> float | None:
        new = [values for values in self._containers[job].reports if values.at > since]
        return sum(each.total for each in new) / sum(each.count for each in new) if new else None

    def values(self, job: JobId, since: float) -> Values | None:
        new = [values for values in self._containers[job].reports if values.at > since]
        return Values(new[0].first, new[-1].last, sum(each.count for each in new)) if new else None

    def left(self, job: JobId) -> Left | None:
        """By its own steps and what each took of the CPU; else by jobs like it, as if it used all that it may."""
        container = self._containers[job]
        try:
            return self._left(container)
        except Exception:  # a database that is busy: that is not the stage's fault
            log_fault(_LOG, "what is left of job %s is not known", job)
            return None

    def _left(self, container: _Measured) -> Left | None:
        here, used = container.here, container.cpu_seconds
        by_steps = self._work_left.by_steps(here.job, container.progress, used, container.cost.per_step)
        if by_steps is not None:
            return by_steps
        by_others = self._work_left.by_others(here.job, self.now)
        return by_others.times(here.cpus * len(here.workers)) if by_others else None

    # --- measuring

    def _renewed(self, here: JobSnapshot) -> _Measured:
        known = self._containers.get(here.id)
        if known is None or known.here.arrived_at != here.arrived_at:
            return _Measured(here, StepCost.of_attempt(here.workers[0].attempt))
        known.here = here
        return known

    def _count(self, container: _Measured) -> None:
        for worker in container.here.workers:
            usage = self._executor.usage(worker, self.name)
            if usage is not None:
                container.usage[worker], container.used[worker] = usage, usage.cpu_seconds


def _mark(container: _Measured) -> Mark:
    metric = container.here.job.spec.metric.name
    if container.progress is None:
        return Mark(metric, since=container.here.arrived_at)
    return Mark(metric, container.progress.count)


def _report(container: _Measured, news: News, now: float) -> None:
    is_first, container.progress = container.progress is None, news.progress
    # Once it is watched, a value counts from when it came: clocks of other machines may be wrong.
    for point in _finite(news.points) if is_first else ():
        container.reports.append(_Reports(min(point.at, now), point.value, 1, point.value, point.value))
    if not is_first and (values := [point.value for point in _finite(news.points)]):
        container.reports.append(_Reports(now, sum(values), len(values), values[0], values[-1]))
    del container.reports[:-_MOST_REPORTS]
    if news.points:
        container.cost.note(container.cpu_seconds, news.progress.step)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _finite(points: Iterable[CurvePoint]) -> list[CurvePoint]:
    """A value that is no number says nothing of growth."""
    return [point for point in points if math.isfinite(point.value)]
