"""From the client's call of submit to the process running, one job after the other on an idle machine."""

import time
from datetime import datetime

from bench.figures import Figures, stopwatch
from bench.service import running

_JOBS = 100
SPEC = {"name": "bench", "command": ["true"], "workdir": None}


def measure() -> Figures:
    figures = Figures(f"Submit to process started, {_JOBS} jobs one after the other")
    started: list[float] = []
    answered: list[float] = []
    over: list[float] = []
    with running() as service, service.client() as client:
        for _ in range(_JOBS):
            called = time.time()
            with stopwatch(answered):
                job = client.submit(SPEC)["id"]
            client.wait(job)
            at = {event["kind"]: _seconds(event["at"]) for event in client.job_events(job)}
            started.append(at["worker_started"] - called)
            over.append(at["worker_exited"] - called)
    figures.add_times("submit to process started", started)
    figures.add_times("submit answered", answered)
    figures.add_times("submit to the end of `true`", over)
    return figures


def _seconds(iso: str) -> float:
    return datetime.fromisoformat(iso).timestamp()
