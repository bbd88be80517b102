"""What the service has run and on which servers, as files that the simulator reads (see docs/simulator.md)."""

import json
from collections.abc import Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from schedulearn.core.domain.job import Job
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.resources import CPUS, GPUS, MEMORY
from schedulearn.core.domain.states import FINISHED
from schedulearn.store import Store

SERVERS = "servers.yaml"
_MOST_POINTS = 50  # of a learning curve
_MOST_TEXT = 200_000_000  # characters of the specs of all jobs: they are in memory together


def history_of(store: Store, most: int) -> Iterator[str]:
    """The newest finished jobs that have run, one line each, in the order of submission."""
    rows, _ = store.list_jobs(FINISHED, sort="id", descending=True, limit=most, most_text=_MOST_TEXT)
    largest = max((node.usable[CPUS] for node in store.list_nodes()), default=1.0)
    ran = [row.job for row in reversed(rows) if row.job.started_at]
    for job in ran:
        yield json.dumps(_record(store, job, largest)) + "\n"


def _record(store: Store, job: Job, largest: float) -> dict[str, Any]:
    record: dict[str, Any] = {
        "id": job.id,
        "submitted_at": job.submitted_at,
        "run_seconds": job.ran.at(job.finished_at or 0.0),
        "user": job.user,
        "name": job.spec.name,
        "deadline": job.deadline,
    }
    workers = job.spec.workers
    if job.spec.resources.gpus:
        sizes = {"min": workers.min, "want": workers.want, "max": workers.max}
        return {**record, "gpus": job.spec.resources.gpus, "workers": sizes}
    # Without GPUs it is one container, which shares the cores of its machine with others.
    return {**record, "cpus": max(0.01, min(largest, job.cpus_asked * workers.want)), **_learned(store, job)}


def _learned(store: Store, job: Job) -> dict[str, Any]:
    """What it reported, by the part of its work that was done; policies that look at curves need it."""
    metric = job.spec.metric
    points = [(p.step, p.value) for p in store.curve(job.id, metric.name, _MOST_POINTS) if isfinite(p.value)]
    last = max((step for step, _ in points), default=0)
    rising: list[list[float]] = []
    for step, value in points:
        if last > 0 and step / last > (rising[-1][0] if rising else -1.0):  # after a restart some steps came again
            rising.append([step / last, value])
    return {"curve": rising, "goal": metric.goal} if len(rising) > 1 else {}


def write_servers(folder: Path, nodes: Sequence[Node]) -> str:
    """The cluster as it is now; the name of the file. JSON is YAML too."""
    entries = [
        {
            "name": str(node.name),
            "gpus": int(node.usable[GPUS]),
            "cpus": node.usable[CPUS],
            "memory": node.usable[MEMORY],
        }
        for node in nodes
        if node.usable[GPUS] + node.usable[CPUS] > 0
    ]
    (folder / SERVERS).write_text(json.dumps(entries), "utf-8")
    return SERVERS
