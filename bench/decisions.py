"""A record of what every preset decides, so that what makes decisions quick can be shown to change none of them.

    python -m bench decisions           compare with the record
    python -m bench decisions --write   make the record anew

Of each run the record keeps the average completion time and a hash of everything that happened: which job ran where,
with how many workers or cores, from when until when. The record is `tests/data/decisions.json`.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.figures import Figures
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.spec import STOP, YIELD, Target
from schedulearn.core.policies.catalogue.presets import PRESETS, build_policy
from schedulearn.lab.sim.cluster import nodes_from_list, parse_cluster
from schedulearn.lab.sim.engine import SimOptions, Simulation
from schedulearn.lab.sim.learned import LearnedFacts
from schedulearn.lab.sim.metrics import Result
from schedulearn.lab.traces.elastic import made_elastic
from schedulearn.lab.traces.registry import load
from schedulearn.lab.traces.types import TraceJob, Workload

RECORD = Path(__file__).parent.parent / "tests" / "data" / "decisions.json"
TRACES = Path(__file__).parent.parent.parent / "shared" / "traces"
_COSTS = SimOptions(restart_cost=30.0, timeline=True)
_FREE = SimOptions(timeline=True)
_FAILING = SimOptions(restart_cost=20.0, node_mtbf=40_000.0, node_repair=4_000.0, locality_penalty=0.1, timeline=True)
# Jobs of presets that look again all the time:
_FEWER = {"gandiva": 100, "gandiva-grow": 100, "gandiva-pack": 100, "pollux": 25, "specon": 150}


@dataclass(frozen=True, slots=True)
class Case:
    """A workload on a cluster."""

    name: str
    trace: str
    cluster: str | list[dict[str, Any]]
    options: SimOptions = _FREE
    jobs: int | None = None
    oracle: bool = True
    presets: tuple[str, ...] = tuple(PRESETS)
    fewer: dict[str, int] = field(default_factory=lambda: _FEWER)  # jobs of presets that take long

    @property
    def is_quick(self) -> bool:
        """Whether it needs no trace, and little time."""
        return self.trace.startswith("synthetic:")

    def nodes(self) -> list[Node]:
        return parse_cluster(self.cluster) if isinstance(self.cluster, str) else nodes_from_list(self.cluster)

    def workload(self, traces: Path) -> Workload:
        if self.trace == MIXED:
            return _mixed()
        path = self.trace if self.is_quick else str(traces / self.trace)
        return made_elastic(load(path, jobs=self.jobs, gpus=sum(int(node.capacity["gpus"]) for node in self.nodes())))


MIXED = "synthetic:mixed"
_RIGID = ("fifo", "round-robin", "srjf", "srtf", "srsf", "edf", "tiresias", "tiresias-gittins")
_GPUS = "synthetic:philly?jobs=150&load=6&gpus=16&seed=3&deadlines=0.3&elastic=true"
_CPUS = "synthetic:philly?jobs=40&load=3&gpus=16&seed=5&cpus=2&curves=true"
_BOTH = [{"count": 2, "gpus": 4, "cpus": 8}, {"name": "big", "gpus": 8, "cpus": 16}]
CASES = (
    Case("gpus", _GPUS, "4x4", _COSTS),
    Case("gpus, guessed", _GPUS, "2x8", _COSTS, oracle=False),
    Case("cores", _CPUS, "2x8c", oracle=False),
    Case("mixed", MIXED, _BOTH, _FAILING, oracle=False),
    Case("cluster06", "elasticflow/cluster06.csv", "12x8"),
    Case("cluster06, guessed", "elasticflow/cluster06.csv", "12x8", _COSTS, jobs=500, oracle=False),
    Case("cluster10", "elasticflow/cluster10.csv", "2x8", _COSTS),
    Case("cluster10, guessed", "elasticflow/cluster10.csv", "2x8", _COSTS, oracle=False),
    *(Case(f"pollux {n}", f"pollux/workload-{n}.csv", "16x4", _COSTS, oracle=n % 2 == 0) for n in (1, 2, 3, 4)),
    Case("philly", "philly/philly.csv", "40x8", jobs=2_000, presets=_RIGID),  # the others take very long with it
)
Record = dict[str, dict[str, dict[str, Any]]]  # case -> preset -> what happened


def measure(traces: Path, write: bool) -> Figures:
    """Compare all there is with the record, or make it anew."""
    figures = Figures("What the presets decide")
    known: Record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for case in CASES:
        if not case.is_quick and not (traces / case.trace).exists():
            figures.note(f"{case.name} is left out: there is no {traces / case.trace}")
            continue
        found = dict(decided(case, traces))
        differ = [preset for preset, told in found.items() if told != known.get(case.name, {}).get(preset)]
        figures.add(f"{case.name}: decided otherwise", len(differ), aim=0, against=", ".join(differ))
        known[case.name] = found
    if write:
        RECORD.write_text(json.dumps(known, indent=1) + "\n")
    return figures


def decided(case: Case, traces: Path = TRACES) -> Iterator[tuple[str, dict[str, Any]]]:
    """What each preset makes of it."""
    workload = case.workload(traces)
    for preset in case.presets:
        yield preset, _told(_run(case, preset, workload))


def _run(case: Case, preset: str, workload: Workload) -> Result:
    if preset in case.fewer:
        workload = replace(workload, jobs=workload.jobs[: case.fewer[preset]])
    policy = build_policy(preset)
    facts = None if case.oracle else LearnedFacts()
    return Simulation(workload, case.nodes(), policy, case.options, facts).run()


def _told(result: Result) -> dict[str, Any]:
    average = sum(job.jct for job in result.jobs) / max(1, len(result.jobs))
    return {"jobs": len(result.jobs), "avg_jct": round(average, 2), "events": _hash(result)}


def _hash(result: Result) -> str:
    """Of all that happened, in order; times to the last bit."""
    digest = hashlib.sha256()
    for run in result.segments:
        digest.update(repr(("ran", run.serial, str(run.node), run.workers, run.start, run.end)).encode())
    for use in result.shares:
        digest.update(repr(("used", use.at, use.serial, str(use.node), use.cores, use.limit)).encode())
    for job in result.jobs:
        counts = (job.preemptions, job.resizes, job.migrations, job.migration_seconds, job.lost_work)
        digest.update(repr(("ended", job.serial, job.started, job.ended, *counts)).encode())
    return digest.hexdigest()[:20]


def _mixed() -> Workload:
    """Jobs with and without GPUs side by side, some of which have a target."""
    gpus = load("synthetic:philly?jobs=50&load=8&gpus=16&seed=7&deadlines=0.3&elastic=true&curves=true").jobs
    cores = load("synthetic:philly?jobs=20&load=3&gpus=32&seed=8&cpus=3&curves=true").jobs
    jobs = sorted((*gpus, *cores), key=lambda job: (job.arrival, job.gpus, job.label))
    return Workload("mixed", [_with_target(serial, job) for serial, job in enumerate(jobs)])


def _with_target(serial: int, job: TraceJob) -> TraceJob:
    if serial % 3 or job.learning is None:
        return job
    value = list(job.learning.points(30))[-1][1]
    return replace(job, target=Target(value, STOP if serial % 2 else YIELD))
