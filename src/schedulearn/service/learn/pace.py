"""How fast jobs are while no limit holds them, told by the CPU that their steps take: held back is not longer."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from schedulearn.core.domain.ids import AttemptId, JobId
from schedulearn.core.domain.job import Job
from schedulearn.service.learn.monitor import EVERY
from schedulearn.store import JobRow, WorkerUsage

_AT_ITS_LIMIT = 0.9  # of it: a worker that uses so much would use more
_SAME = 1e-3  # of what its user allows: a limit closer than that is no other
_MOST = 20_000  # jobs that are remembered


@dataclass(slots=True)
class StepCost:
    """Core-seconds of one step of an attempt. That a limit made it slower does not matter."""

    # Where its steps are counted from, as (core-seconds, step): its beginning, and the first look that knew a step.
    _marks: list[tuple[float, int]]
    _used: float = 0.0
    _step: int = 0

    @classmethod
    def of_attempt(cls, number: int) -> "StepCost":
        """A first attempt begins with step 0; where a later one goes on is seen when it reports."""
        return cls([(0.0, 0)] if number == 1 else [])

    def note(self, used: float, step: int) -> None:
        """It has used so many core-seconds until this step."""
        self._used, self._step = used, step
        if len(self._marks) < 2:
            self._marks.append((used, step))

    @property
    def per_step(self) -> float | None:
        """None: not known yet. What it took to begin is left out as soon as can be."""
        for used, step in reversed(self._marks):
            if self._step > step and self._used > used:
                return (self._used - used) / (self._step - step)
        return None


@dataclass(slots=True)
class _Pace:
    """Of one job."""

    attempt: int
    cost: StepCost
    cost_before: float | None = None  # of a step, in earlier attempts
    looked_at: float = 0.0  # when its workers were last measured
    held: bool = False  # by a limit, at one of the looks
    free_looks: int = 0  # at which no limit held it
    free_cores: float = 0.0  # that a worker used at them, summed up

    @property
    def per_step(self) -> float | None:
        """Core-seconds."""
        return self.cost.per_step or self.cost_before

    def cores(self, allowed: float) -> float:
        """That a worker uses while no limit holds it; all that its user allows as long as that was never seen."""
        return self.free_cores / self.free_looks if self.free_cores > 0 else allowed

    def begin(self, attempt: int) -> None:
        """What was seen of the attempt before still counts."""
        self.attempt, self.cost_before, self.cost = attempt, self.per_step, StepCost.of_attempt(attempt)


class Paces:
    """Of jobs without GPUs: others are never held. Not thread-safe."""

    def __init__(self) -> None:
        self._paces: dict[JobId, _Pace] = {}

    def look(self, rows: Iterable[JobRow], usage: Iterable[WorkerUsage], now: float) -> None:
        """The jobs that run, and the latest that was measured of workers."""
        if len(self._paces) > _MOST:
            self._paces.clear()
        workers: dict[AttemptId, list[WorkerUsage]] = defaultdict(list)
        for one in usage:
            workers[one.worker.of].append(one)
        for row in rows:
            mine = workers.get(AttemptId(row.job.id, row.job.attempt))
            if mine and not row.job.shape.gpus:
                _note(self._pace(row.job), row, mine, now)

    def _pace(self, job: Job) -> _Pace:
        pace = self._paces.get(job.id)
        if pace is None:
            pace = self._paces[job.id] = _Pace(job.attempt, StepCost.of_attempt(job.attempt))
        elif pace.attempt != job.attempt:
            pace.begin(job.attempt)
        return pace

    def step_time(self, job: Job) -> float | None:
        """Seconds of a step with the workers that it wants; None: no limit was seen to hold it, its own time tells."""
        pace = self._paces.get(job.id)
        if pace is None or not pace.held or pace.per_step is None:
            return None
        return pace.per_step / (pace.cores(job.cpus) * job.shape.workers.want)


def _note(pace: _Pace, row: JobRow, workers: Sequence[WorkerUsage], now: float) -> None:
    newest = max(one.latest.at for one in workers)
    if newest <= pace.looked_at:
        return
    pace.looked_at = newest
    if row.progress:
        pace.cost.note(sum(_used(one, now) for one in workers), row.progress.step)
    if any(_is_held(one, row.job.cpus) for one in workers):
        pace.held = True
    elif all(one.cpus is not None for one in workers):
        pace.free_looks += 1
        pace.free_cores += sum(one.cpus or 0.0 for one in workers) / len(workers)


def _used(worker: WorkerUsage, now: float) -> float:
    """Core-seconds until now: the step that is set beside them is of now."""
    since = min(EVERY, max(0.0, now - worker.latest.at))
    return worker.latest.cpu_seconds + (worker.cpus or 0.0) * since


def _is_held(worker: WorkerUsage, allowed: float) -> bool:
    """Whether a limit below what its user allows is in its way."""
    limit = worker.latest.limits.cpus
    if limit is None or worker.cpus is None or limit >= allowed * (1 - _SAME):
        return False
    return worker.cpus >= _AT_ITS_LIMIT * limit
