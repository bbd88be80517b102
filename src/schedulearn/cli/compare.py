"""`compare`: replay a workload under several policies."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from schedulearn.cli.common.errors import Code, Failure
from schedulearn.cli.common.out import next_steps, note, say, say_json, say_table
from schedulearn.cli.common.sim_options import TRACE, several_options, studies_of
from schedulearn.cli.common.study import run_studies, write_files
from schedulearn.cli.common.verb import AsJson, option, verb_app, with_options
from schedulearn.cli.common.what_if import refuse_beside_now, what_if
from schedulearn.cli.view.table import Cell, Column
from schedulearn.wire.predictions import USUAL
from schedulearn.wire.words import Json

if TYPE_CHECKING:
    from schedulearn.lab.sim.figures import Metric
    from schedulearn.lab.sim.run import Study
    from schedulearn.lab.sim.several import Row

app = verb_app()
_NARROW = 2  # columns of figures that are shown however narrow a terminal is
_STEP = 12  # letters that each further one needs


@app.command()
@with_options(several_options)
def compare(
    policies: Annotated[
        str | None,
        option(
            "A,B|all",
            "Presets, or FILE.py:Class; all: all presets. [default: all; with --now fifo, srjf and schedulearn]",
            "--policies",
            "--policy",
        ),
    ] = None,
    now: Annotated[
        bool,
        typer.Option(
            "--now", help="When would the jobs end that run and wait now, under these and the present policy?"
        ),
    ] = False,
    trace: Annotated[list[str] | None, option(*TRACE, "--trace")] = None,
    seeds: Annotated[int, option("N", "Run each trace with so many seeds, from --seed (or 1) on.", min=1)] = 1,
    baseline: Annotated[
        str | None, option("NAME", "The policy that all are compared with, run by run. [default: the first]")
    ] = None,
    processes: Annotated[
        int | None, option("N", "Policies simulated in parallel. [default: one per core]", min=1)
    ] = None,
    progress: Annotated[Path | None, option("FILE", "Keep writing the progress to this file, as JSON.")] = None,
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Replay workloads under several policies, and compare the results.

    With several traces or seeds: the mean of each policy over all runs, and its difference to a baseline run by run,
    with the 95 % interval. With --now nothing is replayed: the service predicts when its jobs of this moment end.

    \b
    Examples:
      schedulearn compare --trace synthetic:philly?jobs=1000 --cluster 8x8 --policies fifo,srtf,tiresias
      schedulearn compare --trace jobs.csv --cluster 16x4 --policies all --out results
      schedulearn compare --trace synthetic:philly?jobs=500 --seeds 5 --cluster 8x8 --policies fifo,srtf,tiresias
      schedulearn compare --now --policies fifo,srtf
    """
    names = [name.strip() for name in (policies or "all").split(",") if name.strip()]
    if now:
        refuse_beside_now({**given, "trace": trace, "seeds": seeds, "baseline": baseline, "processes": processes})
        what_if(names if policies else USUAL, as_json=as_json)
        return
    studies = studies_of(given, names, list(dict.fromkeys(trace or [])), seeds)
    against = _baseline(studies, baseline)
    runs, failures = run_studies(studies, processes, progress)
    from schedulearn.lab.sim import several
    from schedulearn.lab.sim.export import as_json as figures_of

    figures = [figures_of(study, result) for study, result in runs]
    files = write_files(given["out"], runs, failures, against) if given["out"] is not None and runs else []
    if as_json:
        say_json(figures if against is None else several.as_json(figures, against))
    elif figures:
        _say(figures) if against is None else _say_several(figures, against)
        if files:
            say()
            next_steps({"read the report": f"open {files[0]}"})
    if failures:
        raise typer.Exit(Code.JOB_FAILED)


def _baseline(studies: Sequence["Study"], wanted: str | None) -> str | None:
    """None: one run of each policy stands for itself."""
    labels = [choice.label for choice in studies[0].choices]
    if wanted is not None and wanted not in labels:
        raise Failure(f"{wanted!r} is not one of the policies", field="--baseline", allowed=", ".join(labels))
    return wanted or (labels[0] if len(studies) > 1 else None)


def _say_several(figures: Sequence[Json], baseline: str) -> None:
    from schedulearn.lab.sim import several

    _say_differences(several.rows(figures, baseline))
    note(f"{several.IN_WORDS}; the baseline is {baseline}", "dim")
    traces = several.by_trace(figures)
    for trace, own in traces.items() if len(traces) > 1 else ():
        say()
        say(trace, "bold")
        _say_differences(several.rows(own, baseline))


def _say_differences(rows: Sequence["Row"]) -> None:
    from schedulearn.lab.sim import several

    heads, lines = several.table(rows)
    styles = {-1: "bold green", 0: "", 1: "red"}
    columns = [Column(head, right=i > 0, need=_need(i - 2) if i > 1 else 0) for i, head in enumerate(heads)]
    say_table(columns, [[Cell(cell.text, styles[cell.sure]) for cell in line] for line in lines])


def _say(figures: Sequence[Json]) -> None:
    from schedulearn.lab.sim.figures import FAIRNESS, IN_WORDS, METRICS

    _say_table(figures, METRICS)
    note("* best of its column; JCT: job completion time, from arrival to end", "dim")
    say()
    _say_table(figures, FAIRNESS)
    note(IN_WORDS, "dim")
    note(_durations(figures), "dim")


def _say_table(figures: Sequence[Json], metrics: Sequence["Metric"]) -> None:
    from schedulearn.lab.sim.figures import table

    columns = table(figures, metrics)
    heads = [Column("policy"), *(Column(c.title + " ", right=True, need=_need(i)) for i, c in enumerate(columns))]
    rows = [
        [row["policy"], *(Cell(c.texts[i] + "*", "bold green") if c.best[i] else c.texts[i] + " " for c in columns)]
        for i, row in enumerate(figures)
    ]
    say_table(heads, rows)


def _durations(figures: Sequence[Json]) -> str:
    """Which durations the policies knew; the report says more."""
    if figures[0]["estimates"]["source"] == "oracle":
        return "durations: the true ones (--oracle)"
    off = [
        f"{row['policy']} {100 * row['estimates']['median_error']:.0f} %"
        for row in figures
        if row["estimates"].get("count")
    ]
    errors = f"; their median error: {', '.join(off)}" if off else ", where a policy needs them"
    return f"durations: estimated from earlier jobs{errors}"


def _need(index: int) -> int:
    """The width from which on a column is shown: the first few always, the others in turn."""
    return 0 if index < _NARROW else 26 + _STEP * index
