"""The share stage with real containers: the engine and the kernel hold them to it, and their threads follow."""

from collections.abc import Iterator
from typing import Any

import pytest

from schedulearn.client import Client
from support.base_image import IMAGE
from support.docker import Daemon
from support.fake_torch import FAKE_TORCH
from support.jobs import in_state, output, submit
from support.service import PATIENCE, Service
from support.waiting import wait_until

# Computes all the time, for ever; says its loss and each new number of threads. FLAT: it has nothing left to learn.
TRAINS = f"""
import os, time
open("torch.py", "w").write({FAKE_TORCH!r})
import torch
step, threads = 0, 0
while True:
    step += 1
    until = time.monotonic() + 0.1
    while time.monotonic() < until:
        pass
    print(f"step {{step}} loss {{1.0 if os.environ.get('FLAT') else -(1.02**step)}}", flush=True)
    if torch.get_num_threads() != threads:
        threads = torch.get_num_threads()
        print(f"threads {{threads}}", flush=True)
"""


@pytest.fixture
def engine(daemons: Any) -> Iterator[Daemon]:
    yield daemons(0)
    daemons.clean()


@pytest.fixture
def service(engine: Daemon, tmp_path: Any) -> Iterator[Service]:
    with Service(tmp_path / "data") as running, running.client() as client:
        wait_until(client.nodes, PATIENCE, "the machine itself is a node")
        client.drain("local")
        client.add_node(engine.address, "one", IMAGE)
        yield running


def trains(client: Client, **env: str) -> int:
    command = ["python3", "-u", "-c", TRAINS]
    asked = {"command": command, "workdir": None, "env": env, "resources": {"cpus": "0.05..2"}, "grace": 0}
    job = submit(client, {**asked, "name": "trains", "image": IMAGE})
    in_state(client, job, "running")
    return job


def threads(client: Client, job: int) -> list[str]:
    return [line.split()[1].decode() for line in output(client, job).splitlines() if line.startswith(b"threads")]


class Held:
    """What one container is held to, in cores."""

    def __init__(self, engine: Daemon, job: int) -> None:
        with engine.client() as client:
            filters = {"label": f"schedulearn.worker={job}.1.0"}
            (self.container,) = [found["Id"] for found in client.api.containers(filters=filters)]
        self.engine = engine

    def by_engine(self) -> float:
        with self.engine.client() as client:
            config = client.api.inspect_container(self.container)["HostConfig"]
        return float(config["CpuQuota"]) / float(config["CpuPeriod"])


def shown(client: Client, job: int) -> float | None:
    """The limit in `schedulearn nodes`."""
    sharing = next(node["sharing"] for node in client.nodes() if node["name"] == "one")
    return sharing["limits"].get(str(job)) if sharing else None


def by_kernel(client: Client, job: int) -> float:
    """As it was read from the control group, or as the engine elsewhere told it."""
    used = client.usage(job)
    return float((used[0]["latest"]["cpus_limit"] if used else None) or 2.0)


def test_a_container_that_has_converged_makes_way_and_its_threads_follow(service: Service, engine: Daemon) -> None:
    with service.client() as client:
        client.set_policy("flowcon", params={"itval": 0.5, "alpha": 0.01})
        flat, grows = trains(client, FLAT="1"), trains(client)
        held = Held(engine, flat)
        wait_until(lambda: held.by_engine() < 2.0, PATIENCE, "it is limited")
        wait_until(lambda: threads(client, flat)[:2] == ["2", "1"], PATIENCE, "it has one thread, not two")
        wait_until(lambda: by_kernel(client, flat) < 2.0, PATIENCE, "the kernel says the same")
        story = [event for event in client.job_events(flat) if event["kind"] == "share_limit"]
        assert story[0]["node"] == "one"
        assert story[0]["data"]["after"] < 2.0
        assert Held(engine, grows).by_engine() == 2.0
        wait_until(lambda: shown(client, flat) == pytest.approx(held.by_engine()), PATIENCE, "everybody can see it")

        client.cancel(grows)
        wait_until(lambda: held.by_engine() == 2.0, PATIENCE, "alone it may use all that its user allows")
        wait_until(lambda: threads(client, flat)[-1] == "2", PATIENCE, "threads follow again")
        client.delete(flat)
