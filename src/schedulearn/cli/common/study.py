"""Running studies with a progress bar, and writing what came of it."""

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
    from schedulearn.lab.sim.export import Run
    from schedulearn.lab.sim.run import PolicyFailed, Study

_NOTE_EVERY = 0.2  # seconds


def run_studies(
    studies: Sequence["Study"], processes: int | None = None, progress: Path | None = None
) -> tuple[list["Run"], list["PolicyFailed"]]:
    """All their policies; those that failed are told on stderr. How far it is goes to the screen, or into a file."""
    from schedulearn.lab.sim.parallel import run_all
    from schedulearn.lab.sim.run import PolicyFailed

    tasks = [(study, choice) for study in studies for choice in study.choices]
    jobs = sum(len(study.workload.jobs) for study in studies)
    done: dict[str, dict[int, int]] = {}  # by policy and task

    with _noted(jobs * len(studies[0].choices), progress) if progress else progress_bars("jobs", jobs) as bar:

        def told(task: int, completed: int) -> None:
            policy = tasks[task][1].label
            own = done.setdefault(policy, {})
            own[task] = completed
            bar(policy, sum(own.values()))

        outcomes = run_all(tasks, told, processes)
    failures: list[PolicyFailed] = []
    runs: list[Run] = []
    for (study, _), outcome in zip(tasks, outcomes, strict=True):
        if isinstance(outcome, PolicyFailed):
            failures.append(outcome)
            continue
        runs.append((study, outcome))
        if outcome.unfinished:
            where = f" ({study.workload.name}, seed {study.options.seed})" if len(studies) > 1 else ""
            note(f"{outcome.policy}: {outcome.unfinished} jobs were still waiting at the end{where}", "red")
    failures = list({str(failed): failed for failed in failures}.values())  # in each run alike: told once
    for failed in failures:
        show_failure(Failure(str(failed), Code.JOB_FAILED, hint="\n".join(failed.trace.strip().splitlines()[-6:])))
    return runs, failures


def write_files(
    folder: Path, runs: Sequence["Run"], failures: Sequence["PolicyFailed"], baseline: str | None = None
) -> list[Path]:
    """The report and the CSV files. With a baseline all runs are compared with its own."""
    from schedulearn.lab.sim import several_report
    from schedulearn.lab.sim.export import write_csv, write_summary
    from schedulearn.lab.sim.report import write_report

    command = ["schedulearn", *sys.argv[1:]]
    with writing(folder):
        if baseline is not None:
            return [*several_report.write_report(folder, runs, failures, baseline, command), *write_csv(folder, runs)]
        report, study, results = folder / "report.html", runs[0][0], [result for _, result in runs]
        write_report(report, study, results, failures, command)
        return [report, write_summary(folder, study, results), *write_csv(folder, runs)]


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """A folder of results that cannot be written to, in words."""
    try:
        yield
    except OSError as error:
        raise Failure(f"cannot write {error.filename or folder}: {error.strerror}", field="--out") from error


@contextmanager
def _noted(total: int, file: Path) -> Iterator[Callable[[str, float], None]]:
    """Into a file for another program, which always finds it whole; a few times a second is enough for it."""
    known: dict[str, float] = {}
    written = 0.0

    def write(policy: str) -> None:
        noted = {"policy": policy, "done": int(sum(known.values())), "total": total}
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
