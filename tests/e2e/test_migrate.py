"""A job moves between two real engines, with its progress, also over a crash of the service."""

from collections.abc import Iterator
from typing import Any

import pytest

from schedulearn.client import Client
from support.base_image import IMAGE
from support.servers import with_servers
from support.service import PATIENCE, Service
from support.waiting import wait_until

# Counts in its checkpoint, and says where it begins. When it is told to stop it takes its time to save.
COUNTS = """
import os, signal, sys, time
path = os.path.join(os.environ["SCHEDULEARN_CHECKPOINT_DIR"], "step")
step = int(open(path).read()) if os.path.exists(path) else 0
print(f"begins at {step}", flush=True)

def save():
    with open(path + ".new", "w") as file:
        file.write(str(step))
    os.replace(path + ".new", path)

def stop(*_):
    time.sleep(1)
    save()
    print(f"ends at {step}", flush=True)
    sys.exit(0)

signal.signal(signal.SIGTERM, stop)
save()
while True:
    time.sleep(0.02)
    step += 1
    print(f"step {step}", flush=True)
"""


@pytest.fixture(scope="module")
def service(daemons: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with with_servers(tmp_path_factory.mktemp("migrate") / "data", daemons, ("one", "two")) as running:
        yield running


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with service.client() as made:
        yield made
        for job in made.jobs(state=["active"])["jobs"]:
            made.cancel(job["id"])
            made.wait(job["id"])


def started(client: Client) -> tuple[int, str, str]:
    """A job that counts in a container: its id, where it is, and the other server."""
    command = ["python3", "-u", "-c", COUNTS]
    spec = {"command": command, "image": IMAGE, "workdir": None, "resources": {"cpus": 0.2}}
    job = client.submit(spec)["id"]
    wait_until(lambda: b"step 5\n" in output(client, job, 1), PATIENCE, "it counts")
    here = client.job(job)["placement"][0]["node"]
    return job, here, {"one": "two", "two": "one"}[here]


def output(client: Client, job: int, attempt: int) -> bytes:
    if client.job(job)["attempt"] < attempt:
        return b""
    return b"".join(client.logs(job, attempt=attempt))


def line(client: Client, job: int, attempt: int, word: str) -> int:
    """The number in the line that begins so."""

    def found() -> list[int]:
        lines = output(client, job, attempt).decode().splitlines()
        return [int(text.removeprefix(word)) for text in lines if text.startswith(word)]

    wait_until(lambda: bool(found()), PATIENCE, f"attempt {attempt} says {word!r}")
    return found()[0]


def containers(daemons: Any, job: int) -> list[list[str]]:
    """The workers of the job on each server."""
    found = []
    for number in (0, 1):
        with daemons(number).client() as engine:
            listed = engine.api.containers(all=True, filters={"label": f"schedulearn.job={job}"})
            found.append([container["Labels"]["schedulearn.worker"] for container in listed])
    return found


def has_moved(client: Client, job: int, there: str) -> None:
    wait_until(lambda: client.job(job)["migrations"] == 1, PATIENCE, "it has arrived")
    shown = client.job(job)
    assert (shown["state"], shown["attempt"], shown["moving_to"]) == ("running", 2, [])
    assert [place["node"] for place in shown["placement"]] == [there]
    assert shown["migration_seconds"] >= 1, "it took a second to save"
    (event,) = [event for event in client.job_events(job) if event["kind"] == "migrated"]
    assert event["data"]["to"] == [there]
    begins = line(client, job, 2, "begins at ")
    assert begins == line(client, job, 1, "ends at ") >= 5, "it goes on where it was"


def is_moving(client: Client, job: int) -> bool:
    """It is being stopped; or that was too quick for us, and it starts over there."""
    shown = client.job(job)
    return shown["state"] == "stopping" or shown["attempt"] == 2


def test_a_job_moves_with_its_progress(service: Service, client: Client, daemons: Any) -> None:
    job, here, there = started(client)
    moved = service.cli("migrate", str(job), there, "--wait")
    assert moved.returncode == 0, moved.stderr
    assert f"moved from {here} to {there}" in moved.stdout
    has_moved(client, job, there)
    wait_until(lambda: sum(map(len, containers(daemons, job))) == 1, PATIENCE, "the old container is removed")
    assert containers(daemons, job)[{"one": 0, "two": 1}[there]] == [f"{job}.2.0"]


def test_the_service_is_killed_while_it_moves(service: Service, client: Client, daemons: Any) -> None:
    job, _, there = started(client)
    client.migrate(job, there)
    wait_until(lambda: is_moving(client, job), PATIENCE, "it is being stopped")
    service.kill()
    service.start()
    has_moved(client, job, there)
    wait_until(lambda: sum(map(len, containers(daemons, job))) == 1, PATIENCE, "it is in one place alone")


def test_a_server_that_does_not_suit_is_refused(service: Service, client: Client) -> None:
    job, here, _ = started(client)
    for node, words in ((here, "already"), ("nowhere", "there is no node"), ("local", "runs no containers")):
        refused = service.cli("migrate", str(job), node)
        assert refused.returncode == 2
        assert words in refused.stderr
    assert client.job(job)["state"] == "running"
