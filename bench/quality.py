"""What each preset makes of real workloads. Each is a section of docs/results.md, between its two marks."""

import json
import re
import resource
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.figures import Figures
from schedulearn.core.policies.catalogue.presets import PRESETS
from schedulearn.lab.sim.run import Choice, Request, Study, prepare

PAGE = Path(__file__).parent.parent / "docs" / "results.md"
_END = "<!-- end of tables -->"
_MOST = 150.0  # CPU seconds of one simulation, however much is allowed: this is about quality
_COST = "30s"
_FOR_CPUS = (
    "k8s-default",
    "procon",
    "specon",
    "cores-",
    "flowcon",
)  # on jobs with GPUs they are fifo, placed otherwise
_PRESETS = tuple(name for name in PRESETS if not name.startswith(_FOR_CPUS))
_FORK = get_context("fork")  # so that a trace is read once
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    trace: str
    cluster: str
    about: str
    jobs: int | None = None
    elastic: bool = False

    @property
    def name(self) -> str:
        return f"{Path(self.trace).stem} on {self.cluster}{', elastic' if self.elastic else ''}"

    @property
    def words(self) -> list[str]:
        """The options of `schedulearn compare`, but for the trace and the policies."""
        jobs = ["--jobs", str(self.jobs)] if self.jobs else []
        return ["--cluster", self.cluster, *jobs, *(["--elastic"] if self.elastic else []), "--restart-cost", _COST]

    def study(self, traces: Path, oracle: bool) -> Study:
        return prepare(
            Request(
                self.cluster,
                _PRESETS,
                str(traces / self.trace),
                oracle=oracle,
                elastic=self.elastic,
                restart_cost=_COST,
                jobs=self.jobs,
            )
        )


_SMALLEST = "the smallest cluster of 8-GPU nodes that holds its largest job"
_CHANGES = "Jobs may have 1 to twice as many workers as they ask for, with measured speed-ups"
_QUEUE = "The first 10,000 jobs, on a cluster where they queue"
CASES = (
    *(Case(f"pollux/workload-{n}.csv", "16x4", "160 jobs with measured speed-ups") for n in (1, 2, 3, 4)),
    Case("elasticflow/cluster10.csv", "2x8", f"260 jobs with deadlines, on {_SMALLEST} (16 GPUs)"),
    Case("elasticflow/cluster10.csv", "2x8", _CHANGES, elastic=True),
    Case("elasticflow/cluster01.csv", "8x8", f"1,595 jobs with deadlines, on {_SMALLEST} (64 GPUs)"),
    Case("elasticflow/cluster01.csv", "8x8", _CHANGES, elastic=True),
    Case("elasticflow/cluster06.csv", "12x8", f"2,396 jobs with deadlines. {_CHANGES}", elastic=True),
    Case("philly/philly.csv", "40x8", _QUEUE, 10_000),
    Case("philly/philly.csv", "40x8", f"{_QUEUE}. {_CHANGES}", 10_000, elastic=True),
)


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    text: Callable[[Row], str]
    rank: Callable[[Row], float]  # the least is the best


_COLUMNS = (
    _Column("average JCT (s)", lambda row: f"{row['avg_jct']:,.0f}", lambda row: row["avg_jct"]),
    _Column("if all is known", lambda row: _known(row["known"]), lambda row: row["known"] or float("inf")),
    _Column("p99 JCT (s)", lambda row: f"{row['p99_jct']:,.0f}", lambda row: row["p99_jct"]),
    _Column("worst slowdown", lambda row: f"{row['worst_slowdown']:,.0f}", lambda row: row["worst_slowdown"]),
    _Column("makespan (s)", lambda row: f"{row['makespan']:,.0f}", lambda row: row["makespan"]),
    _Column("GPUs in use", lambda row: f"{100 * row['utilization']:.1f} %", lambda row: -row["utilization"]),
)
_MISSED = _Column(
    "missed deadlines",
    lambda row: f"{row['missed_deadlines']:,} of {row['deadlines']:,}",
    lambda row: row["missed_deadlines"],
)


def _known(average: float | None) -> str:
    return "too long" if average is None else f"{average:,.0f}"


def measure(traces: Path, limit: float, only: str = "") -> Figures:
    """`only`: cases with this in their name."""
    figures = Figures("Quality: average completion time of each preset (all columns are in docs/results.md)")
    for case in CASES:
        if only not in case.name:
            continue
        if not (traces / case.trace).exists():
            figures.note(f"{case.name} is left out: no {case.trace} in {traces} (--traces DIR says where traces are)")
            continue
        guessed = _simulated(case.study(traces, oracle=False), min(limit, _MOST))
        late = [name for name, row in guessed.items() if not row]
        known = _simulated(case.study(traces, oracle=True), min(limit, _MOST), late)
        rows = [{**row, "known": (known[name] or {}).get("avg_jct")} for name, row in guessed.items() if row]
        for row in rows:
            figures.add(f"{case.name}, {row['policy']}", row["avg_jct"], "s")
        _write(case, _section(case, rows, late, min(limit, _MOST)))
    return figures


def _simulated(study: Study, limit: float, but: Sequence[str] = ()) -> dict[str, Row | None]:
    """Each policy, but for these."""
    return {choice.label: _alone(study, choice, limit) for choice in study.choices if choice.label not in but}


def _alone(study: Study, choice: Choice, limit: float) -> Row | None:
    """In a process of its own; None if it takes longer than the limit."""
    ours, theirs = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_run, args=(study, choice, limit, theirs))
    process.start()
    theirs.close()
    try:
        row: Row | None = json.loads(ours.recv())
    except EOFError:
        row = None
    process.join()
    assert process.exitcode in (0, -signal.SIGXCPU), f"{choice.label} ended with {process.exitcode}"
    return row


def _run(study: Study, choice: Choice, limit: float, told: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 1))
    told.send(json.dumps(study.run(choice).summary()))


def _section(case: Case, rows: Sequence[Row], late: Sequence[str], limit: float) -> str:
    policies = ",".join(row["policy"] for row in rows)
    words = ["schedulearn", "compare", "--trace", f"traces/{case.trace}", *case.words, "--policies", policies]
    lines = [f"## {case.name}", "", f"{case.about}.", "", "```", " ".join(words), "```", "", *_table(rows)]
    if late:
        lines += ["", f"Left out, as they take more than {limit:g} s of CPU here: {', '.join(late)}."]
    return "\n".join([*lines, ""])


def _table(rows: Sequence[Row]) -> list[str]:
    columns = [*_COLUMNS, *([_MISSED] if any(row["deadlines"] for row in rows) else [])]
    lines = ["| policy | " + " | ".join(column.title for column in columns) + " |", "|---|" + "---:|" * len(columns)]
    best = {column.title: min((column.rank(row) for row in rows), default=0.0) for column in columns}
    for row in rows:
        cells = [f"**{c.text(row)}**" if c.rank(row) == best[c.title] else c.text(row) for c in columns]
        lines.append(f"| {row['policy']} | " + " | ".join(cells) + " |")
    return lines


def _write(case: Case, section: str) -> None:
    """In place of the one that is there, else behind all others."""
    text = PAGE.read_text("utf-8")
    head = re.escape(f"## {case.name}\n")
    text, found = re.subn(rf"{head}.*?(?=\n## |\n{_END})", lambda _: section, text, count=1, flags=re.DOTALL)
    PAGE.write_text(text if found else text.replace(_END, f"{section}\n{_END}"), "utf-8")
