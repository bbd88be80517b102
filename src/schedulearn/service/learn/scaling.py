"""How fast jobs step at each number of workers: measured while they run, kept in the store, used for decisions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Attempt, Job, Worker
from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.core.domain.states import JobState
from schedulearn.core.estimate.scaling import StepTime, StepTimes, Stretches, program_of
from schedulearn.store import Store

_LOOK_EVERY = 1.0  # seconds between two looks at the steps of running jobs
_STRETCH = 2.0  # seconds, at the least, over which steps are counted: values from output are only so exact in time
_SETTLING = 15.0  # seconds after workers came or went within an attempt: newcomers load before they take part
_AT_ONCE = 1.0  # seconds within which the workers of an attempt start together
_MOST_CURVES = 20_000  # jobs whose curve is remembered
_SETTING = "step_times"


@dataclass(frozen=True, slots=True)
class Footing:
    """What must stay the same while steps are counted."""

    attempt: int
    workers: int
    nodes: int  # that they are on
    since: float  # when it last changed, and it had settled
    cpus: float  # that each worker may use


@dataclass(slots=True)
class _Runner:
    """A job that is measured."""

    footing: Footing
    mark: tuple[int, float] | None = None  # step and time from which on steps are counted
    stretches: Stretches | None = None


class Scaling:
    """Not thread-safe. Only a scheduler measures; what it learned is there for all readers of the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._times: StepTimes | None = None
        self._runners: dict[JobId, _Runner] = {}
        self._curves: dict[tuple[JobId, int], SpeedUp | None] = {}  # by job and its largest size
        self._looked_at = -math.inf

    def speedup(self, job: Job) -> SpeedUp | None:
        """None where nothing is known. Policies ask often: an answer stays until more is learned."""
        most = job.shape.workers.max
        key = job.id, most
        if key not in self._curves:
            if len(self._curves) >= _MOST_CURVES:
                self._curves.clear()
            program = program_of(job.spec.image, job.spec.command)
            known = self._known()
            self._curves[key] = known.speedup(job.id, job.user, job.spec.name, most, program) if most > 1 else None
        return self._curves[key]

    def measured(self, job: Job) -> list[int]:
        """At which numbers of workers."""
        return self._known().sizes(job.id, job.spec.name)

    def measured_up_to(self, job: Job) -> int:
        """The largest size at which it, or jobs that run the same, were measured, of several; else 0."""
        return self._known().measured_up_to(job.id, job.spec.name, program_of(job.spec.image, job.spec.command))

    def step_time(self, job: Job, curve: SpeedUp) -> float | None:
        """Seconds of a step with the workers that it wants, of it or of jobs that run the same; None: not known."""
        program, want = program_of(job.spec.image, job.spec.command), job.shape.workers.want
        return self._known().step_time(job.id, job.spec.name, want, program, curve)

    def locality_penalty(self, job: Job) -> float | None:
        program = program_of(job.spec.image, job.spec.command)
        return self._known().locality_penalty(job.id, job.user, job.spec.name, program)

    def refresh(self) -> None:
        """Another process may have learned more."""
        self._times = None
        self._curves.clear()

    def look(self, jobs: Mapping[JobId, Job], attempts: Mapping[JobId, Attempt], now: float) -> bool:
        """Count the steps of running jobs; whether there is news by which a decision might differ."""
        if now - self._looked_at < _LOOK_EVERY:
            return False
        self._looked_at = now
        running = {
            number: job
            for number in attempts
            if (job := jobs.get(number)) and job.state is JobState.RUNNING and job.shape.workers.max > 1
        }
        self._runners = {number: self._runners[number] for number in running if number in self._runners}
        if not running:
            return False
        steps = self._store.latest_steps({number: job.spec.metric.name for number, job in running.items()})
        news = [one for number, step in steps.items() if (one := self._count(running[number], attempts[number], step))]
        if news:
            self._keep(news)
        return bool(news)

    def _keep(self, news: list[StepTime]) -> None:
        for one in news:
            self._known().learn(one)
        self._curves.clear()
        self._store.set_setting(_SETTING, [list(one) for one in self._known()])

    def _count(self, job: Job, attempt: Attempt, step: tuple[int, float]) -> StepTime | None:
        """The job's step time, if the steps since the last look are news."""
        here = footing(job, attempt)
        runner = self._runners.get(job.id)
        if runner is None or runner.footing != here:
            if runner and runner.footing.cpus != here.cpus:
                self._known().forget(job.id)
                self._curves.clear()
            runner = self._runners[job.id] = _Runner(here)
        if step[1] <= here.since:
            return None
        if runner.mark is None or step[0] < runner.mark[0]:
            runner.mark = step  # the first step after a change counts for nothing; nor does one that is done again
            return None
        steps, seconds = step[0] - runner.mark[0], step[1] - runner.mark[1]
        if steps <= 0 or seconds < _STRETCH:
            return None
        runner.mark = step
        runner.stretches = runner.stretches or Stretches()
        median = runner.stretches.add(seconds / steps)
        if median is None:
            return None
        program = program_of(job.spec.image, job.spec.command)
        return StepTime(job.id, job.user, job.spec.name, here.workers, median, program, here.nodes)

    def _known(self) -> StepTimes:
        if self._times is None:
            self._times = StepTimes(StepTime(*one) for one in self._store.setting(_SETTING, []))
        return self._times


def footing(job: Job, attempt: Attempt) -> Footing:
    """Any change of workers, and any pause, begins a new one."""
    there = [worker for worker in attempt.workers if worker.started_at is not None]
    first = min((worker.started_at or 0.0 for worker in there), default=0.0)
    changed = max((max(_moments(worker)) for worker in there), default=0.0)
    settled = changed + _SETTLING if changed > first + _AT_ONCE else changed
    nodes = [worker.node for worker in there if worker.ended_at is None and worker.left_at is None]
    return Footing(attempt.id.number, len(nodes), len(set(nodes)), max(settled, job.ran.since), job.cpus)


def _moments(worker: Worker) -> list[float]:
    """When it came, and went."""
    return [at for at in (worker.started_at, worker.ended_at, worker.left_at) if at is not None]
