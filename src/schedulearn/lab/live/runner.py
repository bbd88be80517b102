"""Runs an experiment with real training: every policy on the same jobs, seed by seed, on this machine."""

import importlib.util
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from schedulearn.client import ApiError, Client
from schedulearn.lab.experiments.measures import makespan
from schedulearn.lab.experiments.runner import Outcome, Told, run_simulated
from schedulearn.lab.experiments.runs import Run
from schedulearn.lab.experiments.types import Experiment, Variant
from schedulearn.lab.experiments.workloads import Jobs, workload_of
from schedulearn.lab.live.calibrate import calibrated, check_end
from schedulearn.lab.live.collect import collect
from schedulearn.lab.live.fits import networks_of, why_not
from schedulearn.lab.live.programs import NETWORKS, Pace, program_folder, steps_of, training, wait_of
from schedulearn.lab.live.service import LiveError, Place, private_service
from schedulearn.lab.traces.types import Workload

Say = Callable[[str], None]  # words for the user who waits
_LOOK = 0.2  # seconds between two looks at whether all jobs have ended
_LATE = 20.0  # times as long as expected, and as much as it takes to start: then something hangs
_START = 2.0  # a job should last so many times as long as it takes to start


@dataclass(frozen=True, slots=True)
class _Bench:
    """What all runs of an experiment have in common."""

    place: Place
    scale: float
    cores: float
    paces: Mapping[str, Pace]  # by network
    folder: Path


def run_policies(experiment: Experiment, seeds: int, scale: float, place: Place, told: Told, say: Say) -> Outcome:
    """`told` is called with the number of runs that are done, and parts of the one under way."""
    if experiment.jobs is None or (problem := why_not(experiment)):
        raise LiveError(f"{experiment.name} cannot be run live: {problem}")
    simulated = run_simulated(experiment, seeds)
    runs: dict[str, list[Run]] = {variant.label: [] for variant in experiment.variants}
    with program_folder() as folder:
        bench = _prepared(experiment, scale, place, folder)
        notes = _notes(bench, experiment.jobs)
        for words in (*notes, _expected(simulated, scale)):
            say(words)
        for seed in range(seeds):
            workload = workload_of(experiment.jobs, seed, bench.cores, scale)
            for variant in experiment.variants:
                expected = makespan(simulated.runs[variant.label][seed]) * scale
                begun = sum(map(len, runs.values()))
                runs[variant.label].append(_run(bench, variant, workload, seed, _Clock(told, begun, expected)))
    return Outcome(experiment, seeds, scale, runs, simulated, f"live, {bench.cores:g} cores, {place.executor}", notes)


def check_torch(place: Place) -> None:
    if place.executor == "process" and importlib.util.find_spec("torch") is None:
        raise LiveError("live runs train with torch, which is not here: pip install 'schedulearn[torch]'")


class _Clock:
    """Tells how far a run has come, by the time that it was expected to take."""

    def __init__(self, told: Told, begun: int, expected: float) -> None:
        self._told, self._begun, self._expected = told, begun, expected
        self._end = time.monotonic() + _LATE * (expected + 60.0)

    def tick(self, elapsed: float) -> None:
        self._told(self._begun + min(0.99, elapsed / self._expected))
        if time.monotonic() > self._end:
            raise LiveError(f"jobs have not ended {_LATE:g} times as late as expected")

    def done(self) -> None:
        self._told(self._begun + 1)


def _prepared(experiment: Experiment, scale: float, place: Place, folder: Path) -> _Bench:
    """All policies are taken, and each network was measured alone."""
    check_torch(place)
    with private_service(place) as client:
        for variant in experiment.variants:
            _set_policy(client, variant, 0, scale)
        _set_policy(client, experiment.baseline, 0, scale)
        cores = sum(node["capacity"]["cpus"] for node in client.nodes())
        return _Bench(place, scale, cores, calibrated(client, networks_of(experiment), place, cores, folder), folder)


def _set_policy(client: Client, variant: Variant, seed: int, scale: float) -> None:
    try:
        client.set_policy(variant.preset, variant.stages, variant.params_of(seed, scale))
    except ApiError as error:
        raise LiveError(f"the service does not take {variant.label!r}: {error}") from error


def _run(bench: _Bench, variant: Variant, workload: Workload, seed: int, clock: _Clock) -> Run:
    with private_service(bench.place) as client:
        _set_policy(client, variant, seed, bench.scale)
        began, start = time.time(), time.monotonic()
        for trace in workload.jobs:
            while (left := trace.arrival - (time.monotonic() - start)) > 0:
                time.sleep(min(left, _LOOK))
                clock.tick(time.monotonic() - start)
            network = NETWORKS[trace.name]
            pace = bench.paces[network]
            steps, wait = steps_of(trace, pace, bench.cores), wait_of(trace, pace, bench.cores)
            spec = training(network, steps, bench.place, bench.cores, wait, seed)
            said = {"steps": steps} if variant.announced else {}
            client.submit({**spec, **said, "name": trace.name}, bench.folder)
        while client.jobs(state=["active"], limit=1)["total"]:
            time.sleep(_LOOK)
            clock.tick(time.monotonic() - start)
        for number in range(1, len(workload.jobs) + 1):
            check_end(client, client.job(number))
        clock.done()
        return collect(client, workload, seed, variant.label, began, bench.scale)


def _expected(simulated: Outcome, scale: float) -> str:
    runs = [run for runs in simulated.runs.values() for run in runs]
    seconds = sum(makespan(run) for run in runs) * scale
    time_ = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"
    return f"{len(runs)} run{'s' * (len(runs) > 1)}: about {time_} of training, and the starts"


def _notes(bench: _Bench, jobs: Jobs) -> list[str]:
    """What was measured before the runs, and whether jobs are long enough for it."""
    paces = [f"{name} {1000 * pace.step:.1f} ms" for name, pace in bench.paces.items()]
    start = max(pace.start for pace in bench.paces.values())
    found = [f"a step alone takes: {', '.join(paces)}; a program takes {start:.1f} s until its first"]
    shortest = min(workload_of(jobs, 0, bench.cores, bench.scale).jobs, key=lambda trace: trace.duration)
    if shortest.duration < _START * start:
        needed = bench.scale * _START * start / shortest.duration
        found.append(
            f"{shortest.name} should take {shortest.duration:.1f} s at this scale, hardly more than it takes to start: "
            f"its figures are like the published only from --scale {needed:.2g} on"
        )
    return found
