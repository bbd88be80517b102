"""What a job uses, and a limit that is changed while it runs, as its user sees both. Real service, real processes."""

import json
from typing import Any

import pytest

from schedulearn.client import Client
from schedulearn.executors.process.cgroups import detect
from support.jobs import in_state, kinds, spec, submit
from support.service import PATIENCE, Service
from support.waiting import wait_until

BURN = "while true; do :; done"


def job_of(client: Client, **resources: Any) -> int:
    job = submit(client, spec(BURN, resources=resources))
    in_state(client, job, "running")
    return job


def used(client: Client, job: int) -> Any:
    """What its one worker uses; waits for the first look."""
    return wait_until(lambda: client.usage(job), PATIENCE, "somebody has looked at the worker")[0]


def test_what_a_running_job_uses(client: Client, service: Service) -> None:
    job = job_of(client, cpus="0.5..2")
    used(client, job)
    wait_until(lambda: used(client, job)["latest"]["cpus"], PATIENCE, "two looks")
    worker = used(client, job)
    assert worker["worker"] == f"{job}.1.0"
    assert worker["latest"]["cpu_seconds"] > 0
    assert worker["memory_peak"] >= worker["latest"]["memory"] > 0
    assert worker["latest"]["received_bytes"] is None
    told = service.cli("describe", str(job)).stdout
    assert "cpu time" in told
    assert "memory" in told
    client.delete(job)


@pytest.mark.skipif(detect().cpu is None and detect().unified is None, reason="this machine lets us make no groups")
def test_a_limit_is_changed_and_outlives_the_service(client: Client, service: Service) -> None:
    job = job_of(client, cpus="0.25..2")
    result = service.cli("update", str(job), "--cpus-limit", "0.5")
    assert result.returncode == 0, result.stderr
    assert "0.5 for each worker" in result.stdout
    wait_until(lambda: "limits_set" in kinds(client, job), PATIENCE, "the story says so")
    control = service.data / "jobs" / str(job) / "attempts" / "1" / "0" / "control.json"
    assert json.loads(control.read_text())["cpus"] == 0.5
    service.kill()
    service.start()
    wait_until(lambda: used(client, job)["latest"]["cpus_limit"] == 0.5, PATIENCE, "it is read from the kernel")
    assert kinds(client, job).count("limits_set") == 1, "setting it again changed nothing"
    assert client.job(job)["cpus_limit"] == 0.5
    client.delete(job)


def test_a_limit_that_cannot_be_changes_nothing(client: Client, service: Service) -> None:
    job = job_of(client, cpus="0.5..2")
    result = service.cli("update", str(job), "--cpus-limit", "0.1")
    assert result.returncode == 2
    assert "cpus_limit" in result.stderr or "--cpus-limit" in result.stderr
    assert client.job(job)["cpus_limit"] is None
    client.delete(job)
