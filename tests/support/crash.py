"""The crash test: many short jobs while the service is killed again and again. Each must end exactly once.

Also called by the benchmarks, with more jobs and more kills.
"""

import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from schedulearn.client import Client, ServiceUnreachable
from schedulearn.store import Store, StoredEvent, open_store
from support.jobs import spec
from support.service import PATIENCE, Service, job_processes
from support.waiting import wait_until

# The run folder is kept across attempts. A second process of the same job that ran at the same time would find the
# lock; a second run, before or after, would leave more than one line.
SCRIPT = """
import os, sys, time
me = os.environ["SCHEDULEARN_ATTEMPT"]
log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
try:
    lock = os.open("lock", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
except FileExistsError:
    os.write(log, f"overlap {me}\\n".encode())
    sys.exit(9)
os.write(log, f"begin {me}\\n".encode())
time.sleep(float(sys.argv[1]))
os.write(log, f"end {me}\\n".encode())
os.unlink("lock")
"""
_ENDS = ("succeed", "fail", "cancel")  # events that are the end of a job


@dataclass(frozen=True, slots=True)
class CrashReport:
    """What became of the jobs."""

    jobs: int
    kills: int
    states: dict[str, int]
    problems: list[str]  # what must not be; empty if all is well
    seconds: float


def crash_test(data: Path, jobs: int, kills: int, seed: int, longest: float = 0.6) -> CrashReport:
    """Submit so many jobs while the service is killed so often at random points, and see what became of each."""
    began = time.monotonic()
    rng = random.Random(seed)
    lengths = [rng.uniform(0.0, longest) for _ in range(jobs)]
    moments = [rng.uniform(0.1, 2.0) for _ in range(kills)]  # seconds from a start of the service to its end
    with Service(data) as service:
        killer = threading.Thread(target=_kill_again_and_again, args=(service, moments))
        killer.start()
        with service.client() as client:
            submitted = [_submit(client, f"short-{i}", seconds) for i, seconds in enumerate(lengths)]
        killer.join()
        with service.client() as client:
            wait_until(lambda: _all_over(client, jobs), PATIENCE + 2.0 * jobs, "all jobs have ended")
            states = Counter(client.job(job)["state"] for job in submitted)
        service.stop()
        with suppress(AssertionError):  # supervisors end a moment after they have said so; what stays is a problem
            wait_until(lambda: not job_processes(data), PATIENCE)
        problems = [p for job in submitted for p in _problems(data, job)] + left_behind(data, data / "schedulearn.db")
    return CrashReport(len(submitted), kills, dict(states), problems, time.monotonic() - began)


def _kill_again_and_again(service: Service, moments: list[float]) -> None:
    """It may be reading its store, starting workers, recording their ends, or still be starting itself."""
    for moment in moments:
        if not service.running:
            service.launch()
        time.sleep(moment)
        service.kill()
    service.start()


def _submit(client: Client, name: str, seconds: float) -> int:
    """Whatever happens to the service, the job is there once. A name tells whether an unanswered call got through."""
    words = [sys.executable, "-S", "-c", SCRIPT, f"{seconds:.3f}"]
    job = spec(words, name=name, resources={"cpus": "0.5..2"})

    def try_it() -> int | None:
        try:
            known = client.jobs(name=name)["jobs"]
            return (known[0] if known else client.submit(job))["id"]
        except ServiceUnreachable:
            return None

    return wait_until(try_it, PATIENCE * 2, f"{name} is submitted") or 0


def _all_over(client: Client, jobs: int) -> bool:
    return client.jobs(state=["finished"], limit=1)["total"] == jobs


def _problems(data: Path, job: int) -> list[str]:
    log = data / "jobs" / str(job) / "run" / "log"
    lines = log.read_text().split("\n") if log.exists() else []
    told = [line.split()[0] for line in lines if line]
    return [] if told == ["begin", "end"] else [f"job {job} ran as {told}"]


def left_behind(data: Path, database: str | Path) -> list[str]:
    """What is still there of jobs that are all over, after the service has ended; empty if all is well."""
    with open_store(database) as store:
        leases, requests = store.leases(), store.requests_after(0)
        ends = Counter(e.event.job for e in _events(store) if e.event.kind in _ENDS)
        attempts = [a for job in ends if job for a in store.attempts_of(job) if a.ended_at is None]
    found = [f"{lease.worker} still holds a lease" for lease in leases]
    found += [f"request {request.serial} was never dealt with" for request in requests]
    found += [f"job {job} ended {count} times" for job, count in ends.items() if count > 1]
    found += [f"attempt {attempt.id} never ended" for attempt in attempts]
    return found + [f"process {pid} was left behind" for pid in job_processes(data)]


def _events(store: Store) -> Iterator[StoredEvent]:
    after = 0
    while page := store.events_after(after):
        yield from page
        after = page[-1].serial
