"""How long the start and a step of each network take here, measured once before an experiment, one after the other."""

import statistics
from collections.abc import Iterable
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from schedulearn.client import Client
from schedulearn.lab.live.programs import Pace, training
from schedulearn.lab.live.service import LiveError, Place
from schedulearn.wire.types import Job

_STEPS = 80
_PATIENCE = 600.0


def calibrated(client: Client, networks: Iterable[str], place: Place, cores: float, folder: Path) -> dict[str, Pace]:
    return {network: _pace(client, network, place, cores, folder) for network in networks}


def _pace(client: Client, network: str, place: Place, cores: float, folder: Path) -> Pace:
    submitted = client.submit(training(network, _STEPS, place, cores), folder)
    job = client.wait(submitted["id"], _PATIENCE)
    check_end(client, job)
    (loss,) = (series for series in client.metrics(job["id"], "loss", 2 * _STEPS) if series["name"] == "loss")
    times = [moment(at) for _, _, at in loss["points"]]
    if len(times) < _STEPS / 2:
        raise LiveError(f"of the {_STEPS} steps of {network} only {len(times)} were reported")
    # The median: what else the machine does now and then is not the network's.
    step = statistics.median(after - before for before, after in pairwise(times)) * (_STEPS / len(times))
    return Pace(times[0] - moment(job["submitted_at"]) - step, step)


def check_end(client: Client, job: Job) -> None:
    if job["state"] != "succeeded":
        said = b"".join(client.logs(job["id"], tail=10)).decode("utf-8", "replace")
        text = job["exit"]["text"] if job["exit"] else job["reason"]
        raise LiveError(f"job {job['id']} ({job['name']}) {job['state']}: {text}\n{said}".rstrip())


def moment(text: str) -> float:
    """Seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()
