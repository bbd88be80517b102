"""A long queue in which no two jobs ask for the same: what one more submission, a look, and a short job cost beside it.

The waiting jobs ask for more than is free, so none of them ever starts; short jobs pass them.
"""

import os
import threading
import time

from bench.figures import Figures, median, timed
from bench.service import Service, folder
from bench.world import World, fill, world
from schedulearn.client import Client
from schedulearn.core.domain.spec import JobSpec, WorkerResources
from schedulearn.service.gateway.explainer import Explainer
from schedulearn.store import open_store

MANY, FEW = 20_000, 100
_ROUNDS = 50
_SHORT = 50  # jobs that are run to their ends
_SECONDS = 5.0  # for which is submitted, and looked at the same time
_CORES = os.cpu_count() or 1


def measure() -> Figures:
    figures = Figures(f"{MANY:,} queued jobs, no two of which ask for the same")
    few, many = ({**_in_process(queued), **_through_the_service(queued)} for queued in (FEW, MANY))
    for name, value in many.items():
        unit = "/s" if name.endswith("a second") else "ms"
        figures.add(name, value, unit, against=f"{value / few[name]:.1f} × as with {FEW} queued")
    return figures


def spec(number: int) -> JobSpec:
    """Most of the machine, each number another amount; the first job has half of it, and stays."""
    part = 0.5 if number == 1 else 0.6 + number % 997 / 2500
    memory = None if number == 1 else 10**6 + number * 997
    resources = WorkerResources(cpus_min=_CORES * part, cpus_max=_CORES * part, memory=memory)
    return JobSpec(
        "train", "sleep 3600", env={"SEED": str(number)}, priority=90 if number == 1 else 50, resources=resources
    )


def _in_process(queued: int) -> dict[str, float]:
    with world(queued, spec) as there:
        return {
            "cycle: a new submission": median([_cycle(there, queued + n) for n in range(_ROUNDS)]) * 1e3,
            **_explained(there, queued),
        }


def _cycle(there: World, number: int) -> float:
    there.submit(number)
    return timed(there.scheduler.cycle)


def _explained(there: World, queued: int) -> dict[str, float]:
    explainer = Explainer(there.store, there.clock)
    last = max(job.id for job in there.scheduler.state.queue)
    first = timed(lambda: explainer.explain(last))
    changed: list[float] = []
    heads: list[float] = []
    for number in range(5):
        _cycle(there, 2 * queued + number)
        changed.append(timed(lambda: explainer.explain(last)))
        heads.append(timed(lambda: explainer.waiting(20)))
    return {
        "explain the last job, the first time": first * 1e3,
        "explain it after a change": median(changed) * 1e3,
        "explain the first 20 at once": median(heads) * 1e3,
    }


def _through_the_service(queued: int) -> dict[str, float]:
    with folder() as root:
        data = root / "data"
        data.mkdir()
        with open_store(data / "schedulearn.db") as store:
            fence = store.take_role("scheduler", "bench", time.time(), 1.0, steal=True)
            fill(store, fence, queued, time.time(), spec)
        service = Service(data)
        try:
            with service.client() as client:
                return _asked(service, client, queued)
        finally:
            service.stop()


def _asked(service: Service, client: Client, queued: int) -> dict[str, float]:
    while not client.overview()["waiting"]:  # after a start the first look reads everything
        time.sleep(0.1)
    looks: list[float] = []
    over = threading.Event()
    looking = threading.Thread(target=_look, args=(service, looks, over))
    looking.start()
    try:
        submitted = _submissions(client, 2 * queued)
        short = _short_jobs(client)
    finally:
        over.set()
        looking.join()
    return {
        "submissions a second": submitted,
        "short jobs a second": short,
        "overview, the slowest": max(looks) * 1e3,
        "overview": median(looks) * 1e3,
        "service: explain the last job": median([timed(lambda: client.explain(queued)) for _ in range(5)]) * 1e3,
    }


def _look(service: Service, into: list[float], over: threading.Event) -> None:
    """As `top` does, all the time."""
    with service.client() as client:
        while not over.wait(0.5):
            into.append(timed(client.overview))


def _submissions(client: Client, first: int) -> float:
    start, number = time.perf_counter(), first
    while time.perf_counter() - start < _SECONDS:
        asked = spec(number)
        resources = {"cpus": asked.resources.cpus_min, "memory": str(asked.resources.memory)}
        client.submit({"name": "train", "command": "true", "workdir": None, "resources": resources})
        number += 1
    return (number - first) / (time.perf_counter() - start)


def _short_jobs(client: Client) -> float:
    start = time.perf_counter()
    small = {"name": "short", "command": "true", "priority": 60, "workdir": None, "resources": {"cpus": 0.1}}
    numbers = [client.submit(small)["id"] for _ in range(_SHORT)]
    while any(client.job(number)["state"] not in ("succeeded", "failed") for number in numbers[-5:]):
        time.sleep(0.05)
    return _SHORT / (time.perf_counter() - start)
