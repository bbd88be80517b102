"""The share stage on a real service: real processes, limited in their control groups by what their training gains."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from schedulearn.client import Client
from schedulearn.core.policies.catalogue.presets import DEFAULT_PRESET
from schedulearn.executors.process.cgroups import detect
from support.jobs import in_state, kinds, script, submit
from support.service import PATIENCE, Service
from support.waiting import wait_until

pytestmark = pytest.mark.skipif(
    detect().cpu is None and detect().unified is None, reason="this machine lets us make no groups"
)

# Computes all the time, for ever, and its loss falls faster and faster. FLAT: it has long stopped to fall.
TRAINS = """
import os, time
from schedulearn import job
step = 0
while True:
    step += 1
    until = time.monotonic() + 0.1
    while time.monotonic() < until:
        pass
    job.report(step=step, loss=1.0 if os.environ.get("FLAT") else -(1.02**step))
"""
SHARED = {"cpus": "0.05..2"}
FAST = {"itval": 0.5, "alpha": 0.01}


@pytest.fixture(autouse=True)
def fair_again(client: Client) -> Iterator[None]:
    yield
    client.set_policy("fifo")


def trains(client: Client, **env: str) -> int:
    job = submit(client, script(TRAINS, resources=SHARED, env=env))
    in_state(client, job, "running")
    return job


def limit(service: Service, job: int) -> Any:
    """As the program is told, so that it can move its threads; it is told of what the kernel holds it to."""
    control = service.data / "jobs" / str(job) / "attempts" / "1" / "0" / "control.json"
    return json.loads(control.read_text()).get("cpus") if control.exists() else None


def events(client: Client, job: int, kind: str) -> list[Any]:
    return [event for event in client.job_events(job) if event["kind"] == kind]


def held_to(client: Client, job: int) -> float:
    used = client.usage(job)
    return (used[0]["latest"]["cpus_limit"] if used else None) or 2.0


def limited(client: Client, service: Service, *jobs: int) -> bool:
    """Whether the processes of all of these are held to less than their user allows."""
    return all((limit(service, job) or 2.0) < 2.0 for job in jobs)


def test_a_job_that_learns_no_more_makes_way_for_one_that_does(client: Client, service: Service) -> None:
    client.set_policy("flowcon", params=FAST)
    flat, grows = trains(client, FLAT="1"), trains(client)
    wait_until(lambda: limited(client, service, flat), PATIENCE, "the flat one is limited")
    told = wait_until(lambda: events(client, flat, "share_limit"), PATIENCE, "and its story says so")[0]
    lists = [(event["data"]["from"], event["data"]["to"]) for event in events(client, flat, "share_list")]
    assert lists[:2] == [("NL", "WL"), ("WL", "CL")]
    assert told["node"]
    assert told["data"]["after"] < told["data"]["machine"]
    assert "limits_set" not in kinds(client, flat), "that is said once"
    wait_until(lambda: held_to(client, flat) < 2.0, PATIENCE, "the kernel says the same")

    service.kill()
    service.start()
    assert limit(service, flat) < 2.0, "nobody has touched it"
    client.cancel(grows)
    lifted = wait_until(lambda: limit(service, flat) == 2.0 and events(client, flat, "share_limit"), PATIENCE)
    assert lifted[-1]["data"]["before"] < 2.0, "the next life knows what the one before has set"
    client.delete(flat)


def test_limits_go_when_another_policy_is_set_and_come_with_its_parameters(client: Client, service: Service) -> None:
    client.set_policy("flowcon", params={**FAST, "itval": 600})
    flat, _ = trains(client, FLAT="1"), trains(client)
    client.set_policy("flowcon", params=FAST)  # else it would take ten minutes
    wait_until(lambda: limited(client, service, flat), PATIENCE, "it is limited")
    client.set_policy("fifo")
    wait_until(lambda: limit(service, flat) == 2.0, PATIENCE, "it is not limited any more")
    assert client.policy()["fault"] is None


def test_a_user_is_told_of_every_limit_that_it_asked_for_also_by_default(client: Client, service: Service) -> None:
    client.set_policy(DEFAULT_PRESET)
    job = trains(client)
    for count, asked in enumerate((0.5, 0.4, 0.3), 1):
        client.update(job, cpus_limit=asked)
        told = wait_until(lambda count=count: events(client, job, "limits_set")[count - 1 :], PATIENCE, "it is told")
        assert told[0]["data"]["cpus"] == asked
        assert limit(service, job) == asked
    client.delete(job)
