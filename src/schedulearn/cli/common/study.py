"""Running a study with a progress bar, and writing what came of it."""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from schedulearn.cli.common.errors import Code, Failure, show_failure
from schedulearn.cli.common.out import note

if TYPE_CHECKING:
    from schedulearn.lab.sim.metrics import Result
    from schedulearn.lab.sim.parallel import Told
    from schedulearn.lab.sim.run import PolicyFailed, Study

_NOTE_EVERY = 0.2  # seconds


def run_study(
    study: "Study", processes: int | None = None, progress: Path | None = None
) -> tuple[list["Result"], list["PolicyFailed"]]:
    """All its policies; those that failed are told on stderr. How far it is goes to the screen, or into a file."""
    from schedulearn.lab.sim.parallel import run_all
    from schedulearn.lab.sim.run import PolicyFailed

    with _noted(study, progress) if progress else _progress(study) as told:
        outcomes = run_all(study, told, processes)
    failures = [outcome for outcome in outcomes if isinstance(outcome, PolicyFailed)]
    for failed in failures:
        show_failure(Failure(str(failed), Code.JOB_FAILED, hint="\n".join(failed.trace.strip().splitlines()[-6:])))
    results = [outcome for outcome in outcomes if not isinstance(outcome, PolicyFailed)]
    for result in results:
        if result.unfinished:
            note(
                f"{result.policy}: {result.unfinished} jobs were still waiting at the end",
                "red",
            )
    return results, failures


def write_files(
    folder: Path, study: "Study", results: Sequence["Result"], failures: Sequence["PolicyFailed"]
) -> list[Path]:
    """The CSV files and the report."""
    from schedulearn.lab.sim.export import write_csv, write_summary
    from schedulearn.lab.sim.report import write_report

    report = folder / "report.html"
    try:
        write_report(report, study, results, failures, ["schedulearn", *sys.argv[1:]])
        return [report, write_summary(folder, study, results), *write_csv(folder, study, results)]
    except OSError as error:
        raise Failure(f"cannot write {error.filename or folder}: {error.strerror}", field="--out") from error


@contextmanager
def _noted(study: "Study", file: Path) -> Iterator["Told"]:
    """Into a file for another program, which always finds it whole; a few times a second is enough for it."""
    total = len(study.workload.jobs)
    known: dict[str, int] = {}
    written = 0.0

    def write(policy: str) -> None:
        noted = {"policy": policy, "done": sum(known.values()), "total": total * len(study.choices)}
        partial = file.with_name(file.name + ".partial")
        partial.write_text(json.dumps(noted), "utf-8")
        partial.replace(file)

    def told(policy: str, done: int) -> None:
        nonlocal written
        begun = policy not in known
        known[policy] = done
        if begun or time.monotonic() - written > _NOTE_EVERY:
            write(policy)
            written = time.monotonic()

    yield lambda choice, done: told(choice.label, done)


@contextmanager
def _progress(study: "Study") -> Iterator["Told"]:
    """A bar for each policy, on a terminal alone."""
    if not sys.stderr.isatty():
        yield lambda _choice, _done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    total = len(study.workload.jobs)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,}/{task.total:,} jobs"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def told(label: str, done: int) -> None:
            if label not in tasks:
                tasks[label] = progress.add_task(label, total=total)
            progress.update(tasks[label], completed=done)

        yield lambda choice, done: told(choice.label, done)
