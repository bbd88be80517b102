"""What is known of jobs by now, live and simulated alike: how long each still takes, and what is learned when it ends.

Seconds are at the size that a job wants (`Job.worked`), so that one that was squeezed does not look long.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.estimate import combine
from schedulearn.core.estimate.features import Features, numbers_in
from schedulearn.core.estimate.history import Finished, History
from schedulearn.core.estimate.loss import Flattening, Points
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.core.estimate.trust import Trust

_OWN = ("steps", combine.PACE, "loss curve")  # sources that speak of the job itself
_STEADY = 5.0  # steps after which their mean tells more than what was before
_MOST_KNOWN = 20_000  # jobs whose way is remembered
ASSUMED_PENALTY = 0.1  # of speed, for workers on several nodes: what a fast network costs most jobs


class Seen(NamedTuple):
    """What a job has reported."""

    step: float  # the last one
    at: float  # when that was
    reports: int  # so far
    points: Callable[[int], Points]  # at least so many of them, as (step, value)


@dataclass(slots=True)
class _Way:
    """How far a job has come since it last went back to an earlier step."""

    began_at: float = 0.0  # step
    worked: float = 0.0  # seconds till then
    step: float = 0.0  # the last one
    pace_before: float | None = None  # seconds of a step, until it went back

    def pace(self, step: float, worked: float) -> float | None:
        """Seconds of a step; None: it never went back, and the mean of all tells."""
        if step < self.step:
            if self.step - self.began_at >= _STEADY:
                self.pace_before = (worked - self.worked) / (self.step - self.began_at)
            self.began_at, self.worked = step, worked
        self.step = step
        if self.pace_before is None or step - self.began_at < _STEADY:
            return self.pace_before
        return (worked - self.worked) / (step - self.began_at)


class JobEstimates:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._flattening = Flattening()
        self._ways: dict[JobId, _Way] = {}
        self.trust = Trust()

    def remaining(
        self, job: Job, seen: Seen | None, history: History, now: float, step_time: float | None = None
    ) -> Estimate | None:
        """Seconds that it still runs, once it runs; None where nothing is known. `step_time`: seconds of a step at the
        size that it wants, where more is known than the mean so far."""
        worked = job.worked.at(now)
        till = _worked_till(seen, job, worked) if seen else None
        pace = self._pace(job, seen, worked if till is None else till) if seen else None
        facts = combine.Facts(
            job.user,
            job.spec.name,
            slots_of(job),
            ran=worked,
            ran_till_step=till,
            step=seen.step if seen else None,
            steps=job.spec.steps,
            step_time=step_time or pace,
            flat=self._flat(job, seen),
            features=_features(job),
            time_left=None if job.time_limit is None else max(0.0, job.time_limit - job.ran.at(now)),
        )
        found = combine.remaining(facts, history)
        if found is None or found.source not in _OWN:
            return found
        return self._believed(job, facts, found, history)

    def ended(self, job: Job, now: float) -> None:
        """It has succeeded: what was told of it is compared with what it took."""
        self.trust.ended(job.id, job.worked.at(now))

    def _pace(self, job: Job, seen: Seen, worked: float) -> float | None:
        """Steps that were done again, or from nothing, do not make a step look longer."""
        if job.id not in self._ways and len(self._ways) >= _MOST_KNOWN:
            self._ways.clear()
        return self._ways.setdefault(job.id, _Way()).pace(seen.step, worked)

    def _believed(self, job: Job, facts: combine.Facts, found: Estimate, history: History) -> Estimate | None:
        """What it tells of itself, unless that has been worse than what would be known without it."""
        is_noted = self.trust.is_noted(job.id, found.source)
        if is_noted and self.trust.always_believes(found.source):
            return found
        without = combine.by_history(facts, history)
        other = without.source if without else ""
        if not is_noted:
            told = facts.ran + without.expected if without else None
            self.trust.note(job.id, found.source, facts.ran + found.expected, told, other)
        if without is None or self.trust.believes(found.source, other):
            return found
        return combine.within_limit(facts, without)

    def work(self, job: Job, seen: Seen | None, used: float, per_step: float | None) -> Estimate | None:
        """The same in core-seconds, by what it has used so far, in all and for a step; None: its steps do not tell."""
        if seen is None or per_step is None:
            return None
        facts = combine.Facts(
            job.user,
            job.spec.name,
            slots_of(job),
            ran=used,
            step=seen.step,
            steps=job.spec.steps,
            step_time=per_step,
            flat=self._flat(job, seen),
        )
        return combine.remaining(facts)

    def _flat(self, job: Job, seen: Seen | None) -> Estimate | None:
        if seen is None or job.spec.steps:
            return None
        return self._flattening.of(job.id, seen.reports, seen.points, job.spec.metric.goal)


def _worked_till(seen: Seen, job: Job, worked: float) -> float | None:
    """Until its last step; None where the clock of its server cannot be right."""
    return min(worked, job.worked.at(seen.at)) or None


def duration(job: Job, history: History) -> Estimate | None:
    """Seconds that such a job runs altogether."""
    return history.duration(job.user, job.spec.name, slots_of(job), _features(job))


def finished(job: Job, now: float) -> Finished:
    """What is learned of a job that has succeeded."""
    return Finished(job.user, job.spec.name, slots_of(job), job.worked.at(now), _features(job))


def slots_of(job: Job) -> int:
    """The GPUs that it asks for, of all its workers."""
    return job.shape.workers.want * job.shape.gpus


def _features(job: Job) -> Features:
    """The numbers of its command line, what it asked for altogether (what it used of that is not measured), and how
    many jobs were in its way: one with GPUs has those for itself."""
    crowd = {} if job.shape.gpus else {"jobs beside": 1.0 + job.beside}  # from 1, as laws are about powers
    return {**_numbers(job.spec.command), **job.shape.per_worker * job.shape.workers.want, **crowd}


@lru_cache(maxsize=2_000)  # a policy asks for every job at every decision
def _numbers(command: str | Sequence[str]) -> Features:
    return numbers_in(command)
