"""Runs an experiment in the simulator: every policy on the same jobs, seed by seed."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.lab.experiments.models import STEP_NOISE
from schedulearn.lab.experiments.runs import Event, Growth, JobRun, Run, Stay, Timeline, Use
from schedulearn.lab.experiments.types import Experiment, Variant
from schedulearn.lab.experiments.workloads import workload_of
from schedulearn.lab.sim.engine import SimOptions, Simulation
from schedulearn.lab.sim.learned import LearnedFacts
from schedulearn.lab.sim.metrics import Result, Segment
from schedulearn.lab.traces.types import Workload

Told = Callable[[float], None]  # so many runs are done


@dataclass(frozen=True, slots=True)
class Outcome:
    """All runs of an experiment."""

    experiment: Experiment
    seeds: int
    scale: float
    runs: Mapping[str, Sequence[Run]]  # by the policy's label; one for each seed, in order
    simulated: "Outcome | None" = None  # of a live run: the same jobs and policies in the simulator
    how: str = ""  # a live run was made: on how many cores, by which executor
    notes: Sequence[str] = ()  # what a reader should know of the circumstances

    @property
    def base(self) -> Sequence[Run]:
        return self.runs[self.experiment.baseline.label]


def run_simulated(experiment: Experiment, seeds: int, scale: float = 1.0, told: Told = lambda _: None) -> Outcome:
    """`scale`: everything takes so many times as long; figures are given in the time of the published experiment."""
    if experiment.jobs is None:
        raise InvalidSpec("experiment", f"{experiment.name} can only be run live: {experiment.live_only}")
    runs: dict[str, list[Run]] = {variant.label: [] for variant in experiment.variants}
    done = 0
    for seed in range(seeds):
        workload = workload_of(experiment.jobs, seed, experiment.machines.cores, scale)
        silent = replace(workload, jobs=[replace(job, announced=None) for job in workload.jobs])
        for variant in experiment.variants:
            jobs = workload if variant.announced else silent
            runs[variant.label].append(_run(experiment, variant, jobs, seed, scale))
            done += 1
            told(done)
    return Outcome(experiment, seeds, scale, runs)


def _run(experiment: Experiment, variant: Variant, workload: Workload, seed: int, scale: float) -> Run:
    policy = build_policy(variant.preset, variant.stages, variant.params_of(seed, scale))
    options = SimOptions(
        restart_cost=experiment.restart_cost * scale,
        locality_penalty=experiment.locality_penalty,
        checkpoint_every=0.0 if variant.saves else math.inf,
        seed=seed,
        timeline=True,
    )
    facts = LearnedFacts(STEP_NOISE, seed)
    result = Simulation(workload, experiment.machines.nodes(), policy, options, facts).run()
    if len(result.jobs) < len(workload.jobs):
        raise InvalidSpec("experiment", f"{variant.label}: {len(workload.jobs) - len(result.jobs)} jobs never ended")
    return _told(experiment, variant, workload, seed, scale, result)


def _told(experiment: Experiment, variant: Variant, workload: Workload, seed: int, scale: float, result: Result) -> Run:
    jobs = []
    for job in sorted(result.jobs, key=lambda job: job.serial):
        trace = workload.jobs[job.serial - 1]
        times = (job.arrival / scale, job.started / scale, job.ended / scale)
        jobs.append(JobRun(job.serial, trace.label, trace.name, *times, job.migrations, job.lost_work / scale))
    machines = experiment.machines
    timeline = _timeline(result, machines.cores or 1.0, scale) if seed == 0 else Timeline()
    slots = float(machines.gpus or machines.cores)
    return Run(
        seed, variant.label, jobs, result.summary()["utilization"], _server_use(result.segments, slots), timeline
    )


def _timeline(result: Result, cores: float, scale: float) -> Timeline:
    uses = [Use(s.at / scale, s.serial, s.node, s.cores / cores, s.limit / cores) for s in result.shares]
    growth = [Growth(s.at / scale, s.serial, s.growth * scale) for s in result.growth]
    growth += [Growth(s.at / scale, s.serial, s.change) for s in result.metric_changes]
    events = [Event(w.at / scale, w.note.job, w.note.kind, w.note.words) for w in result.notes]
    stays = [Stay(s.serial, s.node, s.start / scale, s.end / scale) for s in result.segments]
    return Timeline(uses, growth, stays, sorted(events, key=lambda event: event.at))


def _server_use(segments: Sequence[Segment], slots: float) -> float:
    """The part of its slots that a server had in use, over the time in which it had any: the mean of all servers."""
    if not segments:
        return 0.0
    busy = total = 0.0
    for node in {segment.node for segment in segments}:
        own = [segment for segment in segments if segment.node == node]
        busy += sum(segment.workers * (segment.end - segment.start) for segment in own)
        total += slots * _covered([(segment.start, segment.end) for segment in own])
    return busy / total if total else 0.0


def _covered(spans: Sequence[tuple[float, float]]) -> float:
    """How much of time these cover together."""
    covered, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    return covered
