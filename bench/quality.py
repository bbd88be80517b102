"""What each preset makes of real workloads. The tables are written into docs/results.md, between its two marks."""

import json
import resource
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.figures import Figures, between_marks
from bench.service import command
from schedulearn.core.policies.catalogue.presets import PRESETS

PAGE = Path(__file__).parent.parent / "docs" / "results.md"
_BEGIN, _END = "<!-- tables: python -m bench quality -->\n", "<!-- end of tables -->"
_MOST = 150.0  # CPU seconds of one simulation, however much is allowed: this is about quality
_ASSUMED = ("--oracle", "--restart-cost", "30s")
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    trace: str
    cluster: str
    about: str
    jobs: int | None = None

    @property
    def words(self) -> list[str]:
        """The options of `schedulearn compare`, but for the trace and the policies."""
        return ["--cluster", self.cluster, *(["--jobs", str(self.jobs)] if self.jobs else []), *_ASSUMED]


_SMALLEST = "the smallest cluster of 8-GPU nodes that holds its largest job"
CASES = (
    *(Case(f"pollux/workload-{n}.csv", "16x4", "160 jobs with measured speed-up curves") for n in (1, 2, 3, 4)),
    Case("elasticflow/cluster10.csv", "2x8", f"260 jobs with deadlines, on {_SMALLEST} (16 GPUs)"),
    Case("elasticflow/cluster01.csv", "8x8", f"1,595 jobs with deadlines, on {_SMALLEST} (64 GPUs)"),
    Case("philly/philly.csv", "40x8", "the first 10,000 jobs, on a cluster where they queue", 10_000),
)


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    text: Callable[[Row], str]
    rank: Callable[[Row], float]  # the least is the best


_COLUMNS = (
    _Column("average JCT (s)", lambda row: f"{row['avg_jct']:,.0f}", lambda row: row["avg_jct"]),
    _Column("p99 JCT (s)", lambda row: f"{row['p99_jct']:,.0f}", lambda row: row["p99_jct"]),
    _Column("makespan (s)", lambda row: f"{row['makespan']:,.0f}", lambda row: row["makespan"]),
    _Column("GPUs in use", lambda row: f"{100 * row['utilization']:.1f} %", lambda row: -row["utilization"]),
)
_MISSED = _Column(
    "missed deadlines",
    lambda row: f"{row['missed_deadlines']:,} of {row['deadlines']:,}",
    lambda row: row["missed_deadlines"],
)


def measure(traces: Path, limit: float) -> Figures:
    figures = Figures("Quality: average completion time of each preset (all columns are in docs/results.md)")
    sections = []
    for case in CASES:
        if not (traces / case.trace).exists():
            figures.note(f"{case.trace} is left out: there is none in {traces} (--traces DIR says where traces are)")
            continue
        tried = {preset: _simulate(traces / case.trace, case, preset, min(limit, _MOST)) for preset in PRESETS}
        rows = [row for row in tried.values() if row]
        late = [preset for preset, row in tried.items() if not row]
        for row in rows:
            figures.add(f"{case.trace} {case.cluster}, {row['policy']}", row["avg_jct"], "s")
        sections.append(_section(case, rows, late, min(limit, _MOST)))
    if len(sections) == len(CASES):
        _write(sections)
    else:
        figures.note("docs/results.md is left as it is, because traces are missing")
    return figures


def _simulate(trace: Path, case: Case, preset: str, limit: float) -> Row | None:
    """One row, or None if it takes longer than the limit."""
    words = command("compare", "--trace", str(trace), *case.words, "--policies", preset, "--processes", "1", "--json")

    def restrict() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 1))

    told = subprocess.run(words, capture_output=True, text=True, preexec_fn=restrict)
    if told.returncode == -signal.SIGXCPU:
        return None
    told.check_returncode()
    row: Row = json.loads(told.stdout)[0]
    return row


def _section(case: Case, rows: Sequence[Row], late: Sequence[str], limit: float) -> str:
    policies = ",".join(row["policy"] for row in rows) if late else "all"
    words = ["schedulearn", "compare", "--trace", f"traces/{case.trace}", *case.words, "--policies", policies]
    lines = [f"## {Path(case.trace).stem} on {case.cluster}", "", f"{case.about[0].upper()}{case.about[1:]}.", ""]
    lines += ["```", " ".join(words), "```", "", *_table(rows)]
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


def _write(sections: Sequence[str]) -> None:
    between_marks(PAGE, _BEGIN, _END, "\n".join(sections).rstrip("\n"))
