"""Results as JSON values and as CSV files."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from schedulearn.lab.report import files
from schedulearn.lab.sim.fairness import Treated
from schedulearn.lab.sim.figures import table
from schedulearn.lab.sim.metrics import JobResult, Result
from schedulearn.lab.sim.run import Study

Run = tuple[Study, Result]  # one policy on one trace, with one seed

_JOB_COLUMNS = (
    "policy", "trace", "seed", "serial", "label", "user", "name", "gpus", "status", "arrival", "started",
    "ended", "wait", "jct", "preemptions", "migrations", "migration_seconds", "resizes", "lost_work", "deadline",
    "missed", "slowdown", "rho", "slot_seconds",
)  # fmt: skip


def as_json(study: Study, result: Result) -> dict[str, Any]:
    """What `--json` prints for one run."""
    labels = [study.workload.jobs[serial - 1].label for serial in result.impossible]
    return {
        **result.summary(),
        "trace": study.workload.name,
        "seed": study.options.seed,
        "cluster": study.cluster,
        "malformed_rows": len(study.workload.problems),
        "impossible_jobs": labels,
    }


def write_csv(folder: Path, runs: Sequence[Run]) -> list[Path]:
    """`results.csv` with a line for each run, and for each policy `jobs-….csv` with a line for each job of its runs."""
    rows = [_flat(as_json(study, result)) for study, result in runs]
    paths = [_write(folder / "results.csv", list(dict.fromkeys(key for row in rows for key in row)), rows)]
    policies = list(dict.fromkeys(result.policy for _, result in runs))
    for policy, name in zip(policies, file_names(policies), strict=True):
        jobs = (row for study, result in runs if result.policy == policy for row in _job_rows(study, result))
        paths.append(_write(folder / f"jobs-{name}.csv", _JOB_COLUMNS, jobs))
    return paths


def write_summary(folder: Path, study: Study, results: Sequence[Result]) -> Path:
    """`report.json`: what the report says in short, as a table of texts, for lists of reports."""
    columns = table([result.summary() for result in results])
    return files.write_summary(
        folder,
        "comparison",
        f"{study.workload.name} on {study.cluster}",
        f"{_counted(len(study.workload.jobs), 'job')} on {_counted(len(study.nodes), 'node')}",
        ["policy", *(column.title for column in columns)],
        [[result.policy, *(c.texts[i] for c in columns)] for i, result in enumerate(results)],
        [[False, *(bool(c.best[i]) for c in columns)] for i in range(len(results))],
    )


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def file_names(policies: Iterable[str]) -> list[str]:
    """A policy's name as a part of a file's name: `my_policy.py:Mine` holds what a file system may not like."""
    names: list[str] = []
    for policy in policies:
        name = plain = re.sub(r"[^A-Za-z0-9._-]+", "-", policy).strip("-.") or "policy"
        again = 1
        while name in names:
            again += 1
            name = f"{plain}-{again}"
        names.append(name)
    return names


def _write(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Path:
    return files.write_table(path, columns, ([row.get(column, "") for column in columns] for row in rows))


def _flat(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Stages and estimates as columns of their own; what is left of lists and maps as JSON."""
    flat: dict[str, Any] = {}
    for key, value in figures.items():
        if key == "stages":
            flat |= value
        elif key == "estimates":
            flat |= {f"estimates_{part}": known for part, known in value.items()}
        else:
            flat[key] = json.dumps(value) if isinstance(value, dict | list) else value
    return flat


def _job_rows(study: Study, result: Result) -> Iterator[dict[str, Any]]:
    """Every job of the trace, in its order, those that did not run among them."""
    done = {job.serial: job for job in result.jobs}
    treated = {job.serial: job for job in result.treated()}
    too_large = set(result.impossible)
    for serial, trace in enumerate(study.workload.jobs, 1):
        job = done.get(serial)
        row = {
            "policy": result.policy, "trace": study.workload.name, "seed": study.options.seed, "serial": serial,
            "label": trace.label, "user": trace.user, "name": trace.name, "gpus": trace.gpus, "arrival": trace.arrival,
            "deadline": "" if trace.deadline is None else trace.deadline,
        }  # fmt: skip
        if job:
            yield row | _what_became(job) | _how_fair(treated[serial])
        else:
            yield row | {"status": "too large" if serial in too_large else "unfinished"}


def _how_fair(job: Treated) -> dict[str, Any]:
    return {"slowdown": job.slowdown, "rho": job.rho, "slot_seconds": job.used}


def _what_became(job: JobResult) -> dict[str, Any]:
    return {
        "status": "completed",
        "started": job.started,
        "ended": job.ended,
        "wait": job.started - job.arrival,
        "jct": job.jct,
        "preemptions": job.preemptions,
        "migrations": job.migrations,
        "migration_seconds": job.migration_seconds,
        "resizes": job.resizes,
        "lost_work": job.lost_work,
        "missed": "" if job.deadline is None else int(job.missed),
    }
