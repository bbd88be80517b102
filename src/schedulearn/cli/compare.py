"""`compare`: replay a workload under several policies."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from schedulearn.cli.common.errors import Code
from schedulearn.cli.common.out import next_steps, note, say, say_json, say_table
from schedulearn.cli.common.sim_options import sim_options, study_of
from schedulearn.cli.common.study import run_study, write_files
from schedulearn.cli.common.verb import AsJson, option, verb_app, with_options
from schedulearn.cli.view.table import Cell, Column
from schedulearn.wire.words import Json

if TYPE_CHECKING:
    from schedulearn.lab.sim.figures import Metric

app = verb_app()
_NARROW = 2  # columns of figures that are shown however narrow a terminal is
_STEP = 12  # letters that each further one needs


@app.command()
@with_options(sim_options)
def compare(
    policies: Annotated[
        str, option("A,B|all", "Presets, or FILE.py:Class; all: all presets.", "--policies", "--policy")
    ] = "all",
    processes: Annotated[
        int | None, option("N", "Policies simulated in parallel. [default: one per core]", min=1)
    ] = None,
    progress: Annotated[Path | None, option("FILE", "Keep writing the progress to this file, as JSON.")] = None,
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Replay a workload under several policies, and compare the results.

    \b
    Examples:
      schedulearn compare --trace synthetic:philly?jobs=1000 --cluster 8x8 --policies fifo,srtf,tiresias
      schedulearn compare --trace jobs.csv --cluster 16x4 --policies all --out results
    """
    study = study_of(given, [name.strip() for name in policies.split(",") if name.strip()])
    results, failures = run_study(study, processes, progress)
    from schedulearn.lab.sim.export import as_json as figures_of

    figures = [figures_of(study, result) for result in results]
    files = write_files(given["out"], study, results, failures) if given["out"] is not None and results else []
    if as_json:
        say_json(figures)
    elif figures:
        _say(figures)
        if files:
            say()
            next_steps({"read the report": f"open {files[0]}"})
    if failures:
        raise typer.Exit(Code.JOB_FAILED)


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
