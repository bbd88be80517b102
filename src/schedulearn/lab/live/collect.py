"""What came of a live run, read from the service's public API, as the same data that a simulated run gives."""

from collections.abc import Callable, Sequence

from schedulearn.client import Client
from schedulearn.lab.experiments.runs import Event, Growth, JobRun, Run, Stay, Timeline, Use
from schedulearn.lab.live.calibrate import moment
from schedulearn.lab.traces.types import Workload
from schedulearn.wire import types as told

_POINTS = 2000  # of usage: all that the service keeps
Since = Callable[[str], float]  # a moment, in the time of the published experiment


def collect(client: Client, workload: Workload, seed: int, label: str, began: float, scale: float) -> Run:
    """`began`: when the run did. Job numbers are those of a fresh service: in the order of arrival, from 1."""

    def since(at: str) -> float:
        return (moment(at) - began) / scale

    jobs = [client.job(number) for number in range(1, len(workload.jobs) + 1)]
    looks = [_last_looks(client, job["id"]) for job in jobs]
    runs = [
        _job_run(job, trace.label, trace.name, since)._replace(energy=energy_of(last))
        for job, trace, last in zip(jobs, workload.jobs, looks, strict=True)
    ]
    cores = sum(node["capacity"]["cpus"] for node in client.nodes())
    used = sum(look["cpu_seconds"] for last in looks for look in last) / scale
    span = max(run.ended for run in runs) - min(run.arrival for run in runs)
    use = used / (cores * span)
    timeline = _timeline(client, jobs, cores, since, scale) if seed == 0 else Timeline()
    return Run(seed, label, runs, use, use, timeline)


def _job_run(job: told.Job, label: str, model: str, since: Since) -> JobRun:
    started, ended = job["started_at"], job["finished_at"]
    assert started
    assert ended
    return JobRun(job["id"], label, model, since(job["submitted_at"]), since(started), since(ended), job["migrations"])


def _last_looks(client: Client, job: int) -> list[told.Look]:
    """At each worker of all attempts."""
    attempts = range(1, len(client.attempts(job)) + 1)
    return [worker["latest"] for n in attempts for worker in client.usage(job, n, max_points=1)]


def energy_of(looks: Sequence[told.Look]) -> float | None:
    """Joules of all workers; None if of one of them it was not measured."""
    known = [look["energy"] for look in looks if look["energy"] is not None]
    return sum(known) if known and len(known) == len(looks) else None


def _timeline(client: Client, jobs: Sequence[told.Job], cores: float, since: Since, scale: float) -> Timeline:
    uses: list[Use] = []
    stays: list[Stay] = []
    for job in jobs:
        for number, attempt in enumerate(client.attempts(job["id"]), 1):
            own = _stays(job["id"], attempt, since)
            for worker in client.usage(job["id"], number, max_points=_POINTS):
                uses += _uses(own[worker["worker"]], worker["points"], cores, since)
            stays += own.values()
    events = list(client.events())
    growth = [found for event in events for found in _growth(event, since, scale)]
    notes = [Event(since(e["at"]), e["job"], e["kind"], e["cause"]) for e in events]
    return Timeline(sorted(uses), growth, stays, notes)


def _stays(job: int, attempt: told.Attempt, since: Since) -> dict[str, Stay]:
    """By worker."""
    return {
        worker["worker"]: Stay(job, worker["node"], since(worker["started_at"]), since(worker["ended_at"]))
        for worker in attempt["workers"]
        if worker["started_at"] and worker["ended_at"]
    }


def _uses(stay: Stay, points: Sequence[told.Look], cores: float, since: Since) -> list[Use]:
    """A look tells what was used before it: since the look before, or since the start."""
    begins = [stay.start, *(since(point["at"]) for point in points)]
    parts = [((point["cpus"] or 0.0) / cores, (point["cpus_limit"] or cores) / cores) for point in points]
    found = [Use(begin, stay.serial, stay.node, *part) for begin, part in zip(begins, parts, strict=False)]
    if found and begins[-1] < stay.end:  # after the last look it went on as before
        found.append(found[-1]._replace(at=begins[-1]))
    return [*found, Use(stay.end, stay.serial, stay.node, 0.0, 1.0)]


def _growth(event: told.Event, since: Since, scale: float) -> list[Growth]:
    """What a share stage has measured, a change by the second, is in the data of what it wrote down."""
    value = event["data"].get("growth")
    if event["job"] is None or not isinstance(value, int | float):
        return []
    return [Growth(since(event["at"]), event["job"], value * scale)]
