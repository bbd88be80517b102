"""What becomes known of jobs that adapt their batch size, as they report it: step times, and gradient noise."""

import heapq
import math
from collections.abc import Mapping
from typing import NamedTuple

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.estimate.goodput import Goodputs
from schedulearn.lab.sim.model import JobModel, spread

MEASURING = 20.0  # seconds of work at one size after which its step time is known: a few stretches of steps


class _Footing(NamedTuple):
    """What must stay the same while steps are counted."""

    attempt: int
    batch: int


class Adapting:
    """Not only the first time: the noise changes as a training goes on."""

    def __init__(self) -> None:
        self.goodputs = Goodputs()
        self._since: dict[JobId, tuple[_Footing, float]] = {}
        self._due: list[tuple[float, JobId, _Footing]] = []

    def runs(self, model: JobModel, begins: float) -> None:
        """It goes on like this from `begins` on."""
        job = model.job
        footing = _Footing(job.attempt, model.batch)
        known = self._since.get(job.id)
        if known is None or known[0] != footing:
            known = self._since[job.id] = footing, begins
        heapq.heappush(self._due, (max(begins, known[1] + MEASURING), job.id, footing))

    def next_news(self) -> float:
        return self._due[0][0] if self._due else math.inf

    def learn(self, models: Mapping[JobId, JobModel], now: float) -> bool:
        """Whether there is news."""
        is_news = False
        while self._due and self._due[0][0] <= now:
            _, number, footing = heapq.heappop(self._due)
            model = models.get(number)
            if model and model.runs and footing == (model.job.attempt, model.batch):
                is_news |= self._measure(model)
        return is_news

    def ended(self, job: Job) -> None:
        self.goodputs.forget(job.id)
        self._since.pop(job.id, None)

    def _measure(self, model: JobModel) -> bool:
        adaptive = model.trace.adaptive
        assert adaptive is not None
        nodes = spread(model.job.placements)
        seconds = adaptive.step_time(nodes, model.batch)
        is_news = self.goodputs.learn_time(model.job, len(nodes), model.batch, seconds)
        return self.goodputs.learn_noise(model.job, adaptive.noise(model.phase, model.batch)) or is_news
