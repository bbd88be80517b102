"""Durations as the live service would guess them, instead of the true ones: by the steps that a job has reported and
how many its user has announced, else by its learning curve so far, else by the jobs that have completed."""

import math
import random
from dataclasses import asdict
from typing import Any

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.learning import LearningCurve
from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.core.estimate.combine import Facts, remaining
from schedulearn.core.estimate.error import accuracy
from schedulearn.core.estimate.history import Finished, History
from schedulearn.core.estimate.loss import Flattening
from schedulearn.core.estimate.remaining import Estimate, remaining_by_steps
from schedulearn.core.policies.stages import Known
from schedulearn.lab.sim.model import JobModel, newest


class EstimatedFacts:
    """Implements `policies.stages.Facts`. Speed-ups are those of the trace; only time is guessed.

    The guess for a waiting job is made when it joins the queue and holds until it has run again: a queue relies on
    it that what is waiting keeps its place.
    """

    steady = False

    def __init__(self, step_noise: float = 0.0, seed: int = 0) -> None:
        """`step_noise`: standard deviation of the work from one report to the next, as a part of it."""
        self._step_noise, self._seed = step_noise, seed
        self._models: dict[JobId, JobModel] = {}
        self._history = History()
        self._at_submit: dict[JobId, Estimate | None] = {}
        self._waiting: dict[JobId, tuple[int, float]] = {}  # (attempts so far, seconds)
        self._pairs: list[tuple[Estimate, float]] = []  # (estimated, true) of completed jobs
        self._unknown = 0  # jobs of which nothing was known when they were submitted
        self._flattening = Flattening()
        self._by_curve: dict[JobId, tuple[Estimate, float]] = {}  # the same pairs, as a learning curve first told it

    def of(self, models: dict[JobId, JobModel]) -> "EstimatedFacts":
        """Of the jobs of this simulation."""
        self._models = models
        return self

    def estimate(self, job: Job, now: float) -> Estimate | None:
        """Of what has been reported and learned by now. Work counts, not time: what a job has used of its machine."""
        model = self._models[job.id]
        trace = model.trace
        done = trace.duration - model.left(now)  # what it has done so far is no secret
        if trace.learning is None or done <= 0:
            return self._history.remaining(trace.user, trace.name, trace.gpus, done)
        if trace.announced is not None and (found := self._by_steps(model, trace.learning, trace.announced, done)):
            return found
        return self._with_curve(model, trace.learning, done)

    def remaining(self, job: Job, now: float) -> float:
        if job.placements:
            return self._remaining(job, now)
        kept = self._waiting.get(job.id)
        if kept is None or kept[0] != job.attempt:
            self._note(job)
            kept = self._waiting[job.id] = (job.attempt, self._remaining(job, now))
        return kept[1]

    def duration(self, job: Job) -> float:
        estimate = self._note(job)
        return estimate.expected if estimate else math.inf

    def speedup(self, job: Job) -> SpeedUp:
        return self._models[job.id].speedup

    def known(self, job: Job, now: float) -> Known:
        has_curve = self._models[job.id].trace.speedup is not None
        return Known(self.estimate(job, now) is not None, has_curve, True, True)

    def restart_cost(self, job: Job) -> float:
        return self._models[job.id].restart_cost

    def locality_penalty(self, job: Job) -> float:
        return self._models[job.id].locality_penalty

    def metric(self, job: Job, now: float, since: float = -math.inf) -> float | None:
        return newest(self._models[job.id], now, since)

    def ended(self, model: JobModel) -> None:
        """A job has completed: learn from it, and see how far off the guess was."""
        trace, number = model.trace, model.job.id
        self._history.learn(Finished(trace.user, trace.name, trace.gpus, model.work))
        self._waiting.pop(number, None)
        if number in self._at_submit:
            estimate = self._at_submit.pop(number)
            if estimate is not None:
                self._pairs.append((estimate, model.work))

    def report(self) -> dict[str, Any]:
        """Where durations came from, and how far off they were."""
        found = accuracy(self._pairs)
        if found is None and not self._unknown:
            return {"source": "not needed"}
        report = {"source": "history", "unknown": self._unknown, **(asdict(found) if found else {"count": 0})}
        if curves := accuracy(self._by_curve.values()):
            report |= {"by_curve": curves.count, "curve_error": curves.median_error}
        return report

    def _note(self, job: Job) -> Estimate | None:
        """The guess of when it was submitted, which is when it is first asked for."""
        if job.id not in self._at_submit:
            trace = self._models[job.id].trace
            estimate = self._history.duration(trace.user, trace.name, trace.gpus)
            self._unknown += estimate is None
            self._at_submit[job.id] = estimate
        return self._at_submit[job.id]

    def _remaining(self, job: Job, now: float) -> float:
        estimate = self.estimate(job, now)
        return estimate.expected if estimate else math.inf

    def _by_steps(self, model: JobModel, curve: LearningCurve, announced: float, done: float) -> Estimate | None:
        """As of its last report, less what it has done since; None before the first."""
        duration, count = model.trace.duration, curve.passed(done / model.trace.duration)
        part, reports = curve.part(count), len(curve)
        ran = part * duration * self._blur(model, count)
        found = remaining_by_steps(ran, part * reports, round(announced * reports))
        return found.after(part * duration - done).at_least(0.0) if found else None

    def _blur(self, model: JobModel, reports: int) -> float:
        """How far the mean step so far is off the mean of all: the less, the more there were."""
        if not self._step_noise or not reports:
            return 1.0
        luck = random.Random(f"{self._seed} {model.job.id} {reports}").gauss(0.0, 1.0)
        return max(0.1, 1.0 + luck * self._step_noise / math.sqrt(reports))

    def _with_curve(self, model: JobModel, curve: LearningCurve, done: float) -> Estimate | None:
        """Its steps are counted in parts of its work, and their number is not known."""
        trace = model.trace
        progress = done / trace.duration
        flat = self._flattening.of(curve, curve.passed(progress), curve.points, curve.goal)
        facts = Facts(trace.user, trace.name, trace.gpus, ran=done, step=progress, flat=flat)
        estimate = remaining(facts, self._history)
        if flat is not None and estimate is not None and estimate.source == flat.source:
            self._by_curve.setdefault(model.job.id, (estimate.after(done), trace.duration))
        return estimate
