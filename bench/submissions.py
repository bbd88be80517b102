"""1,000 submissions from one client, and how long the service then takes to run them all."""

import time

from bench.figures import Figures, timed
from bench.latency import SPEC
from bench.service import running
from schedulearn.client import Client

_JOBS = 1000


def measure() -> Figures:
    figures = Figures(f"{_JOBS:,} submissions from one client")
    with running() as service, service.client() as client:
        client.drain("local")
        while client.nodes()[0]["state"] != "draining":
            time.sleep(0.01)
        submitting = timed(lambda: _submit_all(client))
        client.drain("local", False)
        running_all = timed(lambda: _wait_for_all(client))
    figures.add("submitting, in all", submitting, "s")
    figures.add("submissions a second", _JOBS / submitting)
    figures.add(f"running {_JOBS:,} × `true`", running_all, "s")
    figures.add("jobs run a second", _JOBS / running_all)
    return figures


def _submit_all(client: Client) -> None:
    for _ in range(_JOBS):
        client.submit(SPEC)


def _wait_for_all(client: Client) -> None:
    while client.jobs(state=("active",), limit=1)["total"]:
        time.sleep(0.25)
