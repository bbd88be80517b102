"""`experiment`: published experiments, reproduced."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from schedulearn.cli.common.errors import Failure
from schedulearn.cli.common.out import next_steps, note, say, say_json, say_table
from schedulearn.cli.common.progress import progress_bars
from schedulearn.cli.common.study import writing
from schedulearn.cli.common.verb import AsJson, option, verb_app
from schedulearn.cli.view import experiment as view
from schedulearn.cli.view.table import rows_of

if TYPE_CHECKING:
    from schedulearn.lab.experiments.runner import Outcome, Told
    from schedulearn.lab.experiments.types import Experiment
    from schedulearn.lab.live.service import Place

app = verb_app()


@app.callback(invoke_without_command=True)
def experiment(ctx: typer.Context) -> None:
    """Reproduce published experiments: published figures beside ours, all policies on the same seeded jobs.

    \b
    Examples:
      schedulearn experiment list
      schedulearn experiment run fixed-3 --out results
      schedulearn experiment run all --seeds 20 --out results
      schedulearn experiment run fixed-3 --live --seeds 3 --scale 0.25 --out results
    """
    if ctx.invoked_subcommand is None:
        list_()


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the experiments."""
    from schedulearn.lab.experiments.catalogue import CATALOGUE

    if as_json:
        say_json([view.facts(one) for one in CATALOGUE.values()])
    else:
        say_table(view.COLUMNS, rows_of(view.COLUMNS, CATALOGUE.values()))


@app.command()
def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An experiment of the list, or all.")],
    live: Annotated[bool, typer.Option("--live/--sim", help="Real training, or virtual time.")] = False,
    seeds: Annotated[
        int | None, option("N", "Number of random draws of jobs. [default: 10, live 3]", min=1, max=1000)
    ] = None,
    scale: Annotated[
        float | None, option("X", "Scale of all times. [default: 1, live 0.25]", min=0.001, max=1000)
    ] = None,
    policies: Annotated[
        list[str] | None, option("NAME", "Only this policy beside the baseline. Repeatable.", "--policy")
    ] = None,
    executor: Annotated[
        Literal["process", "docker"], option("process|docker", "Live: how to run the jobs.")
    ] = "process",
    image: Annotated[str, option("IMAGE", "Live in containers: an image with Python and torch.")] = "",
    out: Annotated[Path | None, option("DIR", "Write the report, pictures and CSV there.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run an experiment, and compare its results with the published ones.

    With --live, a private service runs real training on this machine, policy by policy; Ctrl-C stops it all. Keep
    the machine free of other work meanwhile.

    \b
    Examples:
      schedulearn experiment run fixed-3 --out results
      schedulearn experiment run fixed-3 --live --policy schedulearn --out results
      schedulearn experiment run random-5 --live --executor docker --image pytorch/pytorch
    """
    place = _live_place(executor, image) if live else None
    chosen = [_only(one, policies or []) for one in _chosen(name, live)]
    told: list[dict[str, Any]] = []
    for one in chosen:
        folder = _folder(out / one.name if name == "all" else out) if out else None
        outcome = _run(one, seeds or (3 if live else 10), scale or (0.25 if live else 1.0), place)
        page = _write(folder, outcome) if folder else None
        if as_json:
            told.append(view.figures(outcome))
        else:
            _say(outcome, page)
    if as_json:
        say_json(told if name == "all" else told[0])


def _chosen(name: str, live: bool) -> list["Experiment"]:
    from schedulearn.lab.experiments.catalogue import CATALOGUE, find
    from schedulearn.lab.live.fits import why_not
    from schedulearn.lab.sim.run import BadRequest

    if name == "all":
        return [one for one in CATALOGUE.values() if (not why_not(one) if live else one.jobs is not None)]
    try:
        one = find(name)
    except BadRequest as error:
        raise Failure(error.problem, field="NAME", allowed=error.allowed) from error
    if live and (problem := why_not(one)):
        raise Failure(f"{name} cannot be run live: {problem}", field="NAME", hint="without --live it is simulated")
    if not live and one.jobs is None:
        raise Failure(f"{name} can only be run live: {one.live_only}", field="NAME", hint="run it with --live")
    return [one]


def _only(one: "Experiment", policies: list[str]) -> "Experiment":
    """With these policies beside the baseline, by label or preset."""
    if not policies:
        return one
    known = {name for variant in one.variants for name in (variant.label, variant.preset)}
    for name in policies:
        if name not in known:
            labels = ", ".join(repr(variant.label) for variant in one.variants)
            raise Failure(f"{one.name} has no policy {name!r}", field="--policy", allowed=labels)
    return one.only(policies)


def _run(one: "Experiment", seeds: int, scale: float, place: "Place | None") -> "Outcome":
    from schedulearn.lab.experiments.runner import run_simulated
    from schedulearn.lab.sim.run import BadRequest

    try:
        with progress_bars("runs", seeds * len(one.variants)) as bar:
            told: Told = lambda done: bar(one.name, done)  # noqa: E731
            if place is not None:
                return _run_with_training(one, seeds, scale, place, told)
            return run_simulated(one, seeds, scale, told)
    except BadRequest as error:  # what a policy does not take: thresholds by the second grow as time shrinks
        raise Failure(
            f"{one.name} cannot be run at {scale:g}: {error}", field="--scale", allowed="nearer to 1"
        ) from error


def _folder(path: Path) -> Path:
    from schedulearn.lab.report.files import make_folder
    from schedulearn.lab.sim.run import BadRequest

    try:
        make_folder(path)
    except BadRequest as error:
        raise Failure(error.problem, field="--out") from error
    return path


def _write(folder: Path, outcome: "Outcome") -> Path:
    from schedulearn.lab.experiments.report import write_report

    with writing(folder):
        return write_report(folder, outcome, ["schedulearn", *sys.argv[1:]])[0]


def _say(outcome: "Outcome", page: Path | None) -> None:
    say(f"{outcome.experiment.name}: {outcome.experiment.about}", "bold")
    say_table(*view.table(outcome))
    for words in view.changes(outcome):
        note(words, "dim")
    if page is not None:
        next_steps({"read the report": f"open {page}"})
    say()


# --- live


def _live_place(executor: str, image: str) -> "Place":
    from schedulearn.lab.live.service import Place

    if executor == "docker" and not image:
        raise Failure("containers need an image", field="--image", allowed="one with Python and torch")
    return Place(executor, image if executor == "docker" else "")


def _run_with_training(one: "Experiment", seeds: int, scale: float, place: "Place", told: "Told") -> "Outcome":
    from schedulearn.lab.live.entries import run_live
    from schedulearn.lab.live.service import LiveError

    try:
        with _stopped_as_by_ctrl_c():
            return run_live(one, seeds, scale, place, told, lambda words: note(words, "dim"))
    except LiveError as error:
        problem, *more = str(error).splitlines()
        raise Failure(f"{one.name}: {problem}", hint="\n".join(more)) from error


@contextmanager
def _stopped_as_by_ctrl_c() -> Iterator[None]:
    """SIGTERM unwinds, too: jobs and the private service are not left behind."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
