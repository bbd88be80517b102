"""How fast a training goes under a CPU quota, with a fixed number of threads and with one that follows the quota."""

import time
from collections.abc import Mapping, Sequence

from schedulearn.client import Client
from schedulearn.lab.experiments.others import FOLLOWING, QUOTAS
from schedulearn.lab.live.calibrate import check_end, moment
from schedulearn.lab.live.programs import program_folder, training
from schedulearn.lab.live.service import LiveError, Place, private_service, wait_until

_FOR_EVER = 10**6  # steps
_SETTLE = 1.0  # seconds after a change
_WINDOW = 20.0  # seconds of measuring, at the scale of 1
_FEWEST = 5  # reports in a window
_PATIENCE = 120.0

Report = tuple[float, int]  # when, and the step


def throughput(label: str, place: Place, scale: float) -> Mapping[str, float]:
    """Steps per second under each quota. One job, whose quota changes while it runs."""
    with program_folder() as folder, private_service(place) as client:
        client.set_policy("fifo")  # nothing else changes its quota
        spec = training("mlp", _FOR_EVER, place, max(QUOTAS))
        spec["command"] += ["--reports", str(_FOR_EVER // 2)]
        # A number of threads that the program sets is kept. Threads wait as by default: that is part of the cost.
        spec["env"] = {} if label == FOLLOWING else {"OMP_NUM_THREADS": label.split()[0]}
        job = client.submit(spec, folder)["id"]
        _wait_for(client, job, 0.0, 1)
        return {f"{quota:g}": _speed(client, job, quota, _WINDOW * scale) for quota in QUOTAS}


def _speed(client: Client, job: int, quota: float, window: float) -> float:
    last = max(event["serial"] for event in client.job_events(job))
    client.update(job, cpus_limit=quota)
    event = client.next_event(job, last, lambda event: event["kind"] in ("limits_set", "limits_refused"))
    if event["kind"] == "limits_refused":
        raise LiveError(f"this machine sets no CPU limits: {event['cause']}")
    begin = time.time() + _SETTLE
    time.sleep(_SETTLE + window)
    reports = _wait_for(client, job, begin, _FEWEST)
    (first, before), (latest, after) = reports[0], reports[-1]
    return (after - before) / (latest - first)


def _wait_for(client: Client, job: int, begin: float, count: int) -> Sequence[Report]:
    """The reports since then, once there are so many."""
    if not wait_until(lambda: len(_reports(client, job, begin)) >= count or _has_ended(client, job), _PATIENCE):
        raise LiveError("the training stands still")
    return _reports(client, job, begin)


def _has_ended(client: Client, job: int) -> bool:
    found = client.job(job)
    if found["state"] in ("failed", "cancelled"):
        check_end(client, found)
    return found["state"] == "succeeded"


def _reports(client: Client, job: int, begin: float) -> list[Report]:
    points = [point for series in client.metrics(job, "loss", 2000) for point in series["points"]]
    return [(moment(at), step) for step, _, at in points if moment(at) >= begin]
