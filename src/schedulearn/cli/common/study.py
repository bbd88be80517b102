"""Running a study with a progress bar, and writing what came of it."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from schedulearn.cli.common.errors import Code, Failure, show_failure
from schedulearn.cli.common.out import note
from schedulearn.cli.common.progress import progress_bars

if TYPE_CHECKING:
    from schedulearn.lab.sim.metrics import Result
    from schedulearn.lab.sim.run import PolicyFailed, Study

_NOTE_EVERY = 0.2  # seconds


def run_study(
    study: "Study", processes: int | None = None, progress: Path | None = None
) -> tuple[list["Result"], list["PolicyFailed"]]:
    """All its policies; those that failed are told on stderr. How far it is goes to the screen, or into a file."""
    from schedulearn.lab.sim.parallel import run_all
    from schedulearn.lab.sim.run import PolicyFailed

    with _noted(study, progress) if progress else progress_bars("jobs", len(study.workload.jobs)) as told:
        outcomes = run_all(study, lambda choice, done: told(choice.label, done), processes)
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
    with writing(folder):
        write_report(report, study, results, failures, ["schedulearn", *sys.argv[1:]])
        return [report, write_summary(folder, study, results), *write_csv(folder, study, results)]


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """A folder of results that cannot be written to, in words."""
    try:
        yield
    except OSError as error:
        raise Failure(f"cannot write {error.filename or folder}: {error.strerror}", field="--out") from error


@contextmanager
def _noted(study: "Study", file: Path) -> Iterator[Callable[[str, float], None]]:
    """Into a file for another program, which always finds it whole; a few times a second is enough for it."""
    total = len(study.workload.jobs)
    known: dict[str, float] = {}
    written = 0.0

    def write(policy: str) -> None:
        noted = {"policy": policy, "done": int(sum(known.values())), "total": total * len(study.choices)}
        partial = file.with_name(file.name + ".partial")
        partial.write_text(json.dumps(noted), "utf-8")
        partial.replace(file)

    def told(policy: str, done: float) -> None:
        nonlocal written
        begun = policy not in known
        known[policy] = done
        if begun or time.monotonic() - written > _NOTE_EVERY:
            write(policy)
            written = time.monotonic()

    yield told
