"""The simulator's speed: CPU time, growth and memory of each preset on three real workloads.

Each run is a process of its own, one at a time: its CPU time is what other work on the machine disturbs least, and
its peak memory is nobody else's.
"""

import json
import math
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.figures import Figures
from schedulearn.core.policies.catalogue.presets import PRESETS
from schedulearn.lab.sim.engine import Simulation
from schedulearn.lab.sim.run import Request, prepare

SIZES = (1_000, 10_000, None)  # jobs; None: all
_GROWTH = 10.0  # what all jobs may cost over 10,000
_ORDERS = ("fifo", "round-robin", "srjf", "srtf", "srsf", "edf", "tiresias-gittins", "afs-l")
_CONGESTED = ("fifo", "srtf", "srsf", "afs-l", "schedulearn")  # the presets with an aim on 40x8
_SLOW = {"tiresias": 2.7, "gandiva": 30.0}  # they interrupt jobs 95,000 times and more, by their rules


@dataclass(frozen=True, slots=True)
class Case:
    """A workload on a cluster, and what all its jobs should take at most under each preset that has an aim."""

    trace: str
    cluster: str
    jobs: int
    aims: dict[str, float]  # CPU seconds
    memory: float | None = None  # MB

    @property
    def name(self) -> str:
        return f"{Path(self.trace).stem} {self.cluster}"


CASES = (
    Case("elasticflow/cluster06.csv", "12x8", 2_396, dict.fromkeys(_ORDERS, 0.6) | _SLOW),
    Case("philly/philly.csv", "312x8", 82_247, dict.fromkeys(PRESETS, 4.0)),
    Case("philly/philly.csv", "40x8", 82_247, dict.fromkeys(_CONGESTED, 20.0), memory=250.0),
)


@dataclass(frozen=True, slots=True)
class Run:
    """What one process told."""

    jobs: int  # of the workload
    completed: int
    seconds: float  # CPU time
    memory: float  # MB, at its peak

    @property
    def stopped(self) -> bool:
        return self.completed < self.jobs


def measure(traces: Path, limit: float) -> Figures:
    figures = Figures(f"The simulator, CPU time on one core; a run is stopped after {limit:g} s")
    for case in CASES:
        path = traces / case.trace
        if not path.exists():
            figures.note(f"{case.name} is left out: there is no {path} (--traces DIR says where traces are)")
            continue
        for preset in PRESETS:
            _add(figures, case, preset, list(_runs(case, path, preset, limit)))
    return figures


def _runs(case: Case, path: Path, preset: str, limit: float) -> Iterator[Run]:
    """Ever more jobs, until there are no more or one run does not make it."""
    for size in SIZES:
        if size is None or size < case.jobs:
            run = _run(path, case.cluster, preset, size, limit)
            yield run
            if run.stopped:
                return


def _add(figures: Figures, case: Case, preset: str, runs: list[Run]) -> None:
    for before, run in zip([None, *runs], runs, strict=False):
        name = f"{case.name}, {preset}, {run.jobs:,} jobs"
        aim = case.aims.get(preset) if run.jobs == case.jobs else None
        words = f"{run.completed / run.seconds:,.0f} jobs/s, {run.memory:.0f} MB"
        if run.stopped:
            words = f"stopped: {run.completed:,} jobs in {run.seconds:.0f} s, {run.memory:.0f} MB"
        elif before:
            words += f", {run.seconds / before.seconds:.1f} × as {before.jobs:,}, exponent {_exponent(before, run):.2f}"
        figures.add(name, run.seconds, "s", aim=aim, against=words)
        if aim and case.memory:
            figures.add(f"{name}: memory", run.memory, "MB", aim=case.memory)
    if len(runs) == len(SIZES) and not runs[-1].stopped:
        growth = runs[-1].seconds / runs[-2].seconds
        figures.add(f"{case.name}, {preset}, {runs[-1].jobs:,} over {runs[-2].jobs:,} jobs", growth, "×", aim=_GROWTH)


def _exponent(before: Run, run: Run) -> float:
    return math.log(run.seconds / before.seconds) / math.log(run.jobs / before.jobs)


# --- one run, in a process of its own


def _run(path: Path, cluster: str, preset: str, jobs: int | None, limit: float) -> Run:
    words = [sys.executable, "-m", "bench.simulator", str(path), cluster, preset, str(jobs or 0), str(limit)]
    told = subprocess.run(words, cwd=Path(__file__).parent.parent, stdout=subprocess.PIPE, text=True, check=True)
    return Run(**json.loads(told.stdout))


class _OutOfTime(Exception):
    """The run has had its CPU time."""


def _main(trace: str, cluster: str, preset: str, jobs: str, limit: str) -> None:
    request = Request(cluster=cluster, policies=[preset], trace=trace, oracle=True, jobs=int(jobs) or None)
    study = prepare(request)
    simulation = Simulation(study.workload, study.nodes, study.choices[0].build(), study.options)
    signal.signal(signal.SIGPROF, _out_of_time)
    signal.setitimer(signal.ITIMER_PROF, float(limit))
    begin = time.process_time()
    with suppress(_OutOfTime):
        simulation.run()
    seconds = time.process_time() - begin
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000 * 1.024
    told = {"jobs": len(study.workload.jobs), "completed": simulation.recorder.completed}
    print(json.dumps({**told, "seconds": seconds, "memory": memory}))


def _out_of_time(*_: Any) -> None:
    raise _OutOfTime


if __name__ == "__main__":
    _main(*sys.argv[1:])
