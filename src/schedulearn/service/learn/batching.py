"""Jobs that leave their batch size to the scheduler: what they report is learned, kept, and the best batch told."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Attempt, Job, Worker
from schedulearn.core.domain.states import JobState
from schedulearn.core.estimate.goodput import BatchTime, Goodputs
from schedulearn.core.estimate.scaling import Stretches
from schedulearn.service.learn.scaling import Footing, footing
from schedulearn.store import Store

_LOOK_EVERY = 2.0  # seconds between two looks at what running jobs report
_SETTING = "goodputs"
_SAMPLES, _BATCH, _NOISE = "samples", "batch", "grad_noise"  # as `schedulearn.job.torch` reports them


@dataclass(slots=True)
class _Runner:
    """A job that is measured, with one batch size."""

    footing: Footing
    batch: int
    mark: tuple[float, float]  # samples and time from which on they are counted
    stretches: Stretches
    told: int = 0  # the batch size that it was told to train with since; 0: none


class Batching:
    """Not thread-safe. Only a scheduler measures; its step times are there for all readers of the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._goodputs: Goodputs | None = None
        self._runners: dict[JobId, _Runner] = {}
        self._looked_at = -math.inf

    @property
    def goodputs(self) -> Goodputs:
        if self._goodputs is None:
            kept = self._store.setting(_SETTING, {"times": [], "noises": {}})
            self._goodputs = Goodputs((BatchTime(*one) for one in kept["times"]), kept["noises"])
        return self._goodputs

    def refresh(self) -> None:
        """Another process may have learned more."""
        if self._looked_at == -math.inf:
            self._goodputs = None

    def look(self, jobs: Mapping[JobId, Job], attempts: Mapping[JobId, Attempt], now: float) -> bool:
        """Whether there is news by which a decision might differ."""
        if now - self._looked_at < _LOOK_EVERY:
            return False
        running = {n: job for n in attempts if (job := jobs.get(n)) and job.spec.batch and _runs(job)}
        for number in self._runners.keys() - running.keys():
            del self._runners[number]
            if number not in jobs:
                self.goodputs.forget(number)
        if not running:
            return False
        self._looked_at = now
        seen = {name: self._store.latest_values(dict.fromkeys(running, name), 1) for name in (_SAMPLES, _BATCH, _NOISE)}
        told_at = self._store.latest_steps(dict.fromkeys(running, _SAMPLES))
        is_news = False
        for number, (_, at) in told_at.items():
            samples, batch, noise = (seen[name].get(number, [0.0])[-1] for name in (_SAMPLES, _BATCH, _NOISE))
            if samples and batch:
                is_news |= self._count(running[number], attempts[number], int(batch), (samples, at))
                is_news |= noise > 0 and self.goodputs.learn_noise(running[number], noise)
        if is_news:
            times = [list(one) for one in self.goodputs]
            self._store.set_setting(_SETTING, {"times": times, "noises": self.goodputs.noises})
        return is_news

    def orders(self, attempts: Mapping[JobId, Attempt], jobs: Mapping[JobId, Job]) -> Iterator[tuple[Worker, int]]:
        """Batch sizes that are better than those with which jobs train, for the first of their workers."""
        for number, runner in self._runners.items():
            job, attempt = jobs.get(number), attempts.get(number)
            best = self.goodputs.batch(job, runner.footing.workers) if job else None
            if attempt and attempt.members and best is not None and best not in (runner.batch, runner.told):
                runner.told = best
                yield attempt.members[0], best

    def _count(self, job: Job, attempt: Attempt, batch: int, seen: tuple[float, float]) -> bool:
        here = footing(job, attempt)
        runner = self._runners.get(job.id)
        if runner is None or (runner.footing, runner.batch) != (here, batch) or seen[0] < runner.mark[0]:
            self._runners[job.id] = _Runner(here, batch, seen, Stretches())
            return False
        if seen[1] <= here.since or here.workers != job.workers:
            runner.mark = seen  # it has not settled yet
        samples, seconds = seen[0] - runner.mark[0], seen[1] - runner.mark[1]
        if samples <= 0 or seconds < _LOOK_EVERY:
            return False
        runner.mark = seen
        median = runner.stretches.add(batch * seconds / samples)
        return median is not None and self.goodputs.learn_time(job, here.nodes, batch, median)


def _runs(job: Job) -> bool:
    return job.state is JobState.RUNNING
