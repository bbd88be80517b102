"""`experiment`: the published experiments, run again."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from schedulearn.cli.common.errors import Failure
from schedulearn.cli.common.out import next_steps, note, say, say_json, say_table
from schedulearn.cli.common.verb import AsJson, verb_app
from schedulearn.cli.view.table import Column

if TYPE_CHECKING:
    from schedulearn.experiments.runner import Outcome, Told
    from schedulearn.experiments.types import Experiment

app = verb_app()


@app.callback(invoke_without_command=True)
def experiment(ctx: typer.Context) -> None:
    """Run published experiments again: published figures beside ours, with the policies on the same seeded jobs.

    \b
    Examples:
      schedulearn experiment list
      schedulearn experiment run fixed-3 --out results
      schedulearn experiment run all --seeds 20 --out results
    """
    if ctx.invoked_subcommand is None:
        list_()


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """Show the experiments there are."""
    from schedulearn.experiments.catalogue import CATALOGUE

    if as_json:
        say_json([_as_json(one) for one in CATALOGUE.values()])
        return
    rows = [[one.name, one.source, _where(one), one.about] for one in CATALOGUE.values()]
    say_table([Column("NAME"), Column("SOURCE", need=90), Column("RUNS", need=100), Column("WHAT", flex=True)], rows)


def _where(one: "Experiment") -> str:
    return "live only" if one.jobs is None else "simulated"


def _as_json(one: "Experiment") -> dict[str, Any]:
    return {
        "name": one.name,
        "source": one.source,
        "about": one.about,
        "policies": [variant.label for variant in one.variants],
        "simulated": one.jobs is not None,
    }


@app.command()
def run(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="One of the list; all: everything that can be simulated.")
    ],
    live: Annotated[bool, typer.Option("--live/--sim", help="With real training, or in virtual time.")] = False,
    seeds: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="Draws of arrivals and jobs.")] = 10,
    scale: Annotated[
        float, typer.Option(min=0.001, max=1000, metavar="X", help="Everything takes so many times as long.")
    ] = 1.0,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the report, pictures and CSV there.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run an experiment, and compare what comes of it with what was published."""
    chosen = _chosen(name, live)
    told: list[dict[str, Any]] = []
    for one in chosen:
        folder = _folder(out / one.name if name == "all" else out) if out else None
        outcome = _run(one, seeds, scale)
        page = _write(folder, outcome) if folder else None
        if as_json:
            told.append(_figures(outcome))
        else:
            _say(outcome, page)
    if as_json:
        say_json(told if name == "all" else told[0])


def _chosen(name: str, live: bool) -> list["Experiment"]:
    from schedulearn.experiments.catalogue import CATALOGUE, find
    from schedulearn.sim.run import BadRequest

    if live:
        raise Failure("live runs are not there yet", field="--live", allowed="--sim, in virtual time")
    if name == "all":
        return [one for one in CATALOGUE.values() if one.jobs is not None]
    try:
        one = find(name)
    except BadRequest as error:
        raise Failure(error.problem, field="NAME", allowed=error.allowed) from error
    if one.jobs is None:
        raise Failure(f"{name} can only be run live, which is not there yet: {one.live_only}", field="NAME")
    return [one]


def _run(one: "Experiment", seeds: int, scale: float) -> "Outcome":
    from schedulearn.experiments.runner import run_simulated
    from schedulearn.sim.run import BadRequest

    try:
        with _progress(one.name, seeds * len(one.variants)) as told:
            return run_simulated(one, seeds, scale, told)
    except BadRequest as error:  # what a policy does not take: thresholds by the second grow as time shrinks
        raise Failure(
            f"{one.name} cannot be run at {scale:g}: {error}", field="--scale", allowed="nearer to 1"
        ) from error


@contextmanager
def _progress(name: str, total: int) -> Iterator["Told"]:
    """A bar, on a terminal alone."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,}/{task.total:,} runs"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=total)
        yield lambda done: progress.update(task, completed=done)


def _folder(path: Path) -> Path:
    from schedulearn.sim.export import make_folder
    from schedulearn.sim.run import BadRequest

    try:
        make_folder(path)
    except BadRequest as error:
        raise Failure(error.problem, field="--out") from error
    return path


def _write(folder: Path, outcome: "Outcome") -> Path:
    from schedulearn.experiments.report import write_report

    try:
        return write_report(folder, outcome, ["schedulearn", *sys.argv[1:]])[0]
    except OSError as error:
        raise Failure(f"cannot write {error.filename or folder}: {error.strerror}", field="--out") from error


def _figures(outcome: "Outcome") -> dict[str, Any]:
    from schedulearn.experiments.tables import comparisons, rows

    return {
        "experiment": outcome.experiment.name,
        "seeds": outcome.seeds,
        "scale": outcome.scale,
        "figures": [row._asdict() for row in rows(outcome)],
        "policies": [
            {
                **one._asdict(),
                "average_change": _change(one.average_change),
                "makespan_change": _change(one.makespan_change),
            }
            for one in comparisons(outcome)
        ],
    }


def _change(change: Any) -> dict[str, float | None]:
    """JSON has no infinity: with one seed there is no interval."""
    known = abs(change.low) != float("inf")
    return {"mean": change.mean, "low": change.low if known else None, "high": change.high if known else None}


def _say(outcome: "Outcome", page: Path | None) -> None:
    from schedulearn.experiments.tables import comparisons, interval, rows

    say(f"{outcome.experiment.name}: {outcome.experiment.about}", "bold")
    heads = ("", "policy", "published", "ours: mean (range)", "difference")
    say_table([Column(head) for head in heads], [list(row)[:5] for row in rows(outcome)])
    for one in comparisons(outcome):
        change, ends = interval(one.average_change), interval(one.makespan_change)
        note(f"{one.policy}: average completion {change}, makespan {ends}, with the 95 % interval", "dim")
    if page is not None:
        next_steps({"read the report": f"open {page}"})
    say()
