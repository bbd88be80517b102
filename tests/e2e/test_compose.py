"""The service in containers: compose.yaml and the Dockerfile as they are shipped, on a real engine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.compose import Composed
from support.service_image import ROOT
from support.waiting import wait_until

PATIENCE = 120.0  # only matters when something is broken
SOCKET = "/var/run/docker.sock"
# It reports, and goes on until somebody beside it says that this has arrived.
TRAIN = """
import pathlib, time
from schedulearn import job
print("training as", job.info().worker, flush=True)
job.report(step=7, loss=0.25)
while not pathlib.Path("seen").exists():
    time.sleep(0.05)
print("done", flush=True)
"""


@pytest.fixture
def composed(daemons: Any) -> Iterator[Composed]:
    made = Composed(daemons(0))
    try:
        made.start()
        yield made
    finally:
        made.daemon.clean()
        made.down()


def test_the_service_in_containers_runs_a_job_beside_them(composed: Composed, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    check_rights(composed)
    with composed.client() as client:
        wait_until(lambda: scheduler(client) == "running", PATIENCE, "both parts of the service are up")
        for part in ("api", "scheduler"):
            told = composed.inspect(part)
            composed.run(told["Id"], *told["Config"]["Healthcheck"]["Test"][1:])
        job = client.submit({"command": ["python", "train.py"], "resources": {"cpus": 0.5}}, tmp_path)["id"]
        wait_until(lambda: progress(client, job), PATIENCE, "what the job reports arrives while it runs")
        assert progress(client, job)["value"] == 0.25
        [container] = workers(composed)
        assert container["Mounts"] == []
        assert container["Config"]["Healthcheck"]["Test"] == ["NONE"]
        with client.exec(job, ["id", "-u"]) as running:  # the API has no engine: it asks the scheduler
            assert [data for _, data in running] == [b"70001\n"], "the first user has the first uid"
        assert [path.name for path in client.pull(job, "train.py", tmp_path / "pulled")] == ["train.py"]
        composed("restart", "--timeout", "30", "scheduler")
        composed.run(container["Id"], "touch", "/work/seen", user="70001:70001")
        ended = wait_until(lambda: finished(client, job), PATIENCE, "the job ends")
        assert (ended["state"], ended["attempt"]) == ("succeeded", 1), ended
        assert b"".join(client.logs(job)).splitlines() == [f"training as {job}.1.0".encode(), b"done"]
        wait_until(lambda: workers(composed) == [], PATIENCE, "its container is gone")
    composed.down()
    assert composed.left() == {"containers": [], "networks": [], "volumes": []}


def check_rights(composed: Composed) -> None:
    """Of the containers as they really are."""
    api, schedules = composed.inspect("api"), composed.inspect("scheduler")
    for told in (api, schedules):
        assert told["Config"]["User"] == "10001:10001"
        assert told["HostConfig"]["ReadonlyRootfs"] is True
        assert told["HostConfig"]["CapDrop"] == ["ALL"]
        assert told["HostConfig"]["Privileged"] is False
        assert told["HostConfig"]["RestartPolicy"]["Name"] == "unless-stopped"
    assert [mount["Destination"] for mount in api["Mounts"]] == ["/data"]
    assert sorted(mount["Destination"] for mount in schedules["Mounts"]) == ["/data", SOCKET]
    bound = [one["HostIp"] for bindings in api["HostConfig"]["PortBindings"].values() for one in bindings]
    assert sorted(bound) == [f"{composed.subnet}.1", "127.0.0.1"]
    assert not schedules["HostConfig"]["PortBindings"]


def scheduler(client: Any) -> str:
    return str(client.health()["scheduler"])


def progress(client: Any, job: int) -> Any:
    found = client.job(job)
    assert found["state"] not in ("failed", "cancelled"), found
    return found["progress"] if found["state"] == "running" else None


def finished(client: Any, job: int) -> Any:
    found = client.job(job)
    return found if found["state"] in ("succeeded", "failed", "cancelled") else None


def workers(composed: Composed) -> list[Any]:
    """The containers of jobs, on the engine that runs the service too."""
    with composed.daemon.client() as client:
        found = client.api.containers(all=True, filters={"label": "schedulearn.worker"})
        return [client.api.inspect_container(one["Id"]) for one in found]


def test_only_the_scheduler_is_given_the_engine() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    given = [name for name, service in services.items() if any(SOCKET in volume for volume in service["volumes"])]
    assert given == ["scheduler"]


def test_nothing_is_published_to_other_machines() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    ports = [port for service in services.values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith(("127.0.0.1:", "${SUBNET:-10.73.11}.1:")) for port in ports)
