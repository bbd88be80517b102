"""What is known of simulated jobs as the live service would know it at that moment, by the same code.

Durations: by the steps that a job has reported and how many its user has announced, else by its learning curve so far,
else by the jobs that have completed. Speed-ups: from the sizes at which it, or jobs alike, have run long enough to be
measured. Restart costs: once it, or jobs alike, have been back at work. What is not known yet is assumed.
"""

import heapq
import math
import random
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.speedup import SpeedUp, assumed_speedup
from schedulearn.core.estimate import jobs as estimates
from schedulearn.core.estimate.error import accuracy
from schedulearn.core.estimate.history import History
from schedulearn.core.estimate.jobs import ASSUMED_PENALTY, JobEstimates, Seen
from schedulearn.core.estimate.loss import Points
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.core.estimate.restarts import GUESS, Restart, RestartCosts
from schedulearn.core.estimate.scaling import StepTime, StepTimes, program_of
from schedulearn.core.policies.stages import Known
from schedulearn.lab.sim.adapting import MEASURING, Adapting
from schedulearn.lab.sim.facts import newest
from schedulearn.lab.sim.model import JobModel

_News = tuple[float, JobId, int, float]  # (when, job, version of its model, work in a second)


class LearnedFacts:
    """Implements `policies.stages.Facts`, and `SimulatedFacts` besides.

    The guess for a waiting job is made when it joins the queue and holds until it has run again: a queue relies on
    it that what is waiting keeps its place.
    """

    steady = False

    def __init__(self, step_noise: float = 0.0, seed: int = 0) -> None:
        """`step_noise`: standard deviation of the work from one report to the next, as a part of it."""
        self._step_noise, self._seed = step_noise, seed
        self._models: dict[JobId, JobModel] = {}
        self._history, self._estimates = History(), JobEstimates()
        self._step_times, self._restart_costs = StepTimes(), RestartCosts()
        self._adapting = Adapting()
        self._speeds: list[_News] = []  # that will be known when a job has run like this for a while
        self._paced: set[str] = (
            set()
        )  # programs of which a job has reported a step: before that nobody knows how long one is
        self._quiet: list[_News] = []  # the same of jobs that keep their size
        self._restarts: list[_News] = []  # that will have been measured when a job is back at work
        self._at_submit: dict[JobId, Estimate | None] = {}
        self._waiting: dict[JobId, tuple[int, float]] = {}  # (attempts so far, seconds)
        self._pairs: list[tuple[Estimate, float]] = []  # (estimated, true) of completed jobs
        self._unknown = 0  # jobs of which nothing was known when they were submitted

    # --- what policies ask

    def estimate(self, job: Job, now: float) -> Estimate | None:
        model = self._models[job.id]
        seen = self._seen(model, now)
        return self._estimates.remaining(job, seen, self._history, now, self._step_time(model, seen))

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
        return self._learned_speedup(job) or assumed_speedup(job.shape.workers.max)

    def batch(self, job: Job) -> int | None:
        return self._adapting.goodputs.batch(job, job.workers) or self._models[job.id].trace.batch

    def known(self, job: Job, now: float) -> Known:
        has_cost = self._learned_cost(job) is not None
        if job.spec.batch:
            has_curve = self._adapting.goodputs.is_measured(job)
        else:
            has_curve = self._learned_speedup(job) is not None
        has_penalty = self._learned_penalty(job) is not None
        return Known(self.estimate(job, now) is not None, has_curve, has_cost, has_penalty)

    def measured_up_to(self, job: Job) -> int:
        if job.spec.batch:
            return self._adapting.goodputs.measured_up_to(job)
        return self._step_times.measured_up_to(job.id, job.spec.name, program_of(None, job.spec.command))

    def restart_cost(self, job: Job) -> float:
        cost = self._learned_cost(job)
        return GUESS if cost is None else cost

    def locality_penalty(self, job: Job) -> float:
        penalty = self._learned_penalty(job)
        return ASSUMED_PENALTY if penalty is None else penalty

    def metric(self, job: Job, now: float, since: float = -math.inf) -> float | None:
        return newest(self._models[job.id], now, since)

    # --- what the simulation asks and tells

    def begin(self, models: dict[JobId, JobModel]) -> None:
        self._models = models

    def work(self, job: Job, now: float) -> Estimate | None:
        model = self._models[job.id]
        seen, alone = self._seen(model, now), model.trace.cpus * job.shape.workers.want
        step_time = self._step_time(model, seen)
        if seen is None or step_time is None:
            return None
        return self._estimates.work(job, seen, alone * model.done(now), alone * step_time)

    def runs(self, model: JobModel, begins: float, rate: float) -> None:
        job, workers = model.job, model.job.shape.workers
        if job.attempt > 1 and not self._restart_costs.knows(job.id, job.attempt):
            heapq.heappush(self._restarts, (begins, job.id, model.version, rate))
        if job.spec.batch:
            self._adapting.runs(model, begins)
        elif workers.max > 1 and not self._step_times.knows(job.id, job.workers, _nodes_of(job)):
            # The speed of a job that keeps its size tells what its placement costs, and nothing by which to decide now.
            heap = self._speeds if workers.max > workers.min else self._quiet
            heapq.heappush(heap, (begins + MEASURING, job.id, model.version, rate))

    def next_news(self) -> float | None:
        while self._speeds and self._is_stale(self._speeds[0]):
            heapq.heappop(self._speeds)
        return min(self._speeds[0][0] if self._speeds else math.inf, self._adapting.next_news())

    def learn(self, now: float) -> bool:
        is_news = self._adapting.learn(self._models, now)
        news = [*self._known_by(self._speeds, now)]
        for job, rate in (*news, *self._known_by(self._quiet, now)):
            seconds, program = self._models[job.id].trace.step / rate, program_of(None, job.spec.command)
            one = StepTime(job.id, job.user, job.spec.name, job.workers, seconds, program, _nodes_of(job))
            self._step_times.learn(one)
        for job, _ in self._known_by(self._restarts, now):
            cost = self._models[job.id].restart_cost
            self._restart_costs.learn(Restart(job.id, job.attempt, job.user, job.spec.name, cost))
        return is_news or bool(news)

    def ended(self, model: JobModel, now: float) -> None:
        """A job has completed: learn from it, and see how far off the guess was."""
        job = model.job
        seconds = job.worked.at(now)
        self._history.learn(estimates.finished(job, now))
        self._estimates.ended(job, now)
        self._waiting.pop(job.id, None)
        self._adapting.ended(job)
        if (estimate := self._at_submit.pop(job.id, None)) is not None:
            self._pairs.append((estimate, seconds))

    def report(self) -> dict[str, Any]:
        """Where durations came from, and how far off they were."""
        found = accuracy(self._pairs)
        if found is None and not self._unknown:
            return {"source": "not needed"}
        report = {"source": "history", "unknown": self._unknown, **(asdict(found) if found else {"count": 0})}
        sources = {source: asdict(errors) for source, errors in self._estimates.trust.errors.items()}
        return report | ({"sources": sources} if sources else {})

    # ---

    def _known_by(self, heap: list[_News], now: float) -> Iterator[tuple[Job, float]]:
        """Those whose time has come, with how fast they go, unless something has changed for them since."""
        while heap and heap[0][0] <= now:
            news = heapq.heappop(heap)
            if not self._is_stale(news):
                yield self._models[news[1]].job, news[3]

    def _is_stale(self, news: _News) -> bool:
        model = self._models.get(news[1])
        return model is None or model.version != news[2]

    def _learned_speedup(self, job: Job) -> SpeedUp | None:
        if job.spec.batch:
            return self._adapting.goodputs.speedup(job)
        most = job.shape.workers.max
        program = program_of(None, job.spec.command)
        return self._step_times.speedup(job.id, job.user, job.spec.name, most, program) if most > 1 else None

    def _learned_penalty(self, job: Job) -> float | None:
        program = program_of(None, job.spec.command)
        return self._step_times.locality_penalty(job.id, job.user, job.spec.name, program)

    def _learned_cost(self, job: Job) -> float | None:
        return self._restart_costs.cost(job.id, job.user, job.spec.name)

    def _note(self, job: Job) -> Estimate | None:
        """The guess of when it was submitted, which is when it is first asked for."""
        if job.id not in self._at_submit:
            estimate = estimates.duration(job, self._history)
            self._unknown += estimate is None
            self._at_submit[job.id] = estimate
        return self._at_submit[job.id]

    def _remaining(self, job: Job, now: float) -> float:
        estimate = self.estimate(job, now)
        return estimate.expected if estimate else math.inf

    def _seen(self, model: JobModel, now: float) -> Seen | None:
        """What it has reported: each point of its curve is a step."""
        curve = model.trace.learning
        count = model.reports(now)
        if curve is None or not count:
            return None
        whole, part = len(curve), curve.part(count)

        def points(least: int) -> Points:
            return [(part * whole, value) for part, value in curve.points(least)]

        self._paced.add(program_of(None, model.job.spec.command))
        return Seen(part * whole, model.reached_at(part), count, points)

    def _step_time(self, model: JobModel, seen: Seen | None) -> float | None:
        """Seconds of a step at the size that it wants, measured; None: the mean so far tells."""
        job, trace = model.job, model.trace
        blur = self._blur(model, seen.reports) if seen else 1.0
        if trace.cpus:  # where cores are shared: by what its steps took of them
            return blur * trace.step if seen else None
        program, want = program_of(None, job.spec.command), job.shape.workers.want
        if job.spec.batch or (seen is None and program not in self._paced):
            return None
        known = self._step_times.step_time(job.id, job.spec.name, want, program, self.speedup(job))
        if blur == 1.0 or seen is None or not seen.step:
            return known
        return blur * (known or job.worked.at(seen.at) / seen.step)

    def _blur(self, model: JobModel, reports: int) -> float:
        """How far the mean step so far is off the mean of all: the less, the more there were."""
        if not self._step_noise:
            return 1.0
        luck = random.Random(f"{self._seed} {model.job.id} {reports}").gauss(0.0, 1.0)
        return max(0.1, 1.0 + luck * self._step_noise / math.sqrt(reports))


def _nodes_of(job: Job) -> int:
    return len({placement.node for placement in job.placements})
