"""What the service really ran, as a workload: jobs as the API tells them, in the format of `traces.history`."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from schedulearn.traces import history
from schedulearn.traces.table import Source
from schedulearn.traces.types import Workload


def workload_of(jobs: Iterable[Mapping[str, Any]]) -> Workload:
    """The finished jobs that have run, in the order of submission. Those that never started took nothing."""
    ran = sorted((job for job in jobs if job.get("started_at")), key=lambda job: int(job["id"]))
    lines = [json.dumps(record_of(job)) for job in ran]
    made, problems = history.read(Source(Path("history"), lines))
    return Workload("history", made, tuple(problems))


def record_of(job: Mapping[str, Any]) -> dict[str, Any]:
    """One line of the history."""
    spec = job.get("spec") or {}
    return {
        "id": job["id"],
        "submitted_at": job.get("submitted_at"),
        "run_seconds": job.get("run_seconds"),
        "gpus": (spec.get("resources") or {}).get("gpus"),
        "workers": _workers(spec.get("workers")),
        "user": job.get("user"),
        "name": job.get("name"),
        "deadline": job.get("deadline"),
    }


def _workers(given: object) -> object:
    """A spec may say `1..4` for a range."""
    if not isinstance(given, str):
        return given
    least, _, most = given.partition("..")
    try:
        return {"min": int(least), "max": int(most or least)}
    except ValueError:
        return given  # the reader says what is wrong with it
