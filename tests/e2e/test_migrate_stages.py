"""Migrate stages on several real engines: who has converged makes room, and work goes to where it is done sooner."""

from collections.abc import Iterator
from typing import Any

import pytest

from schedulearn.client import Client
from support.base_image import IMAGE
from support.jobs import delete_all
from support.servers import with_servers
from support.service import PATIENCE, Service
from support.waiting import wait_until

SERVERS = ("one", "two", "three")
LONG = 3 * PATIENCE  # several looks at a metric on a machine that is busy with all these containers

# Fits a line to points by gradient descent, for ever. RATE says how fast it learns: with 0.2 it has learned all there
# is within a second or two, with 0.00002 it goes on for minutes. When told to stop it saves what it has learned.
LEARNS = """
import os, signal, sys, time
path, rate = os.path.join(os.environ["SCHEDULEARN_CHECKPOINT_DIR"], "line"), float(os.environ["RATE"])
points = [(i / 10, 3 * i / 10 + 1) for i in range(-10, 11)]
step, a, b = 0, 0.0, 0.0
if os.path.exists(path):
    saved = open(path).read().split()
    step, a, b = int(saved[0]), float(saved[1]), float(saved[2])
print(f"begins at {step}", flush=True)

def save():
    with open(path + ".new", "w") as file:
        file.write(f"{step} {a!r} {b!r}")
    os.replace(path + ".new", path)

def stop(*_):
    save()
    print(f"ends at {step}", flush=True)
    sys.exit(0)

signal.signal(signal.SIGTERM, stop)
save()
while True:
    errors = [(x, a * x + b - y) for x, y in points]
    a -= rate * 2 * sum(x * e for x, e in errors) / len(points)
    b -= rate * 2 * sum(e for _, e in errors) / len(points)
    step += 1
    if step % 10 == 0:
        print(f"step {step} loss: {sum(e * e for _, e in errors) / len(points):.12f}", flush=True)
    time.sleep(0.01)
"""
FAST, SLOWLY = "0.2", "0.00002"


@pytest.fixture(scope="module")
def service(daemons: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with with_servers(tmp_path_factory.mktemp("specon") / "data", daemons, SERVERS) as running:
        yield running


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with service.client() as made:
        yield made
        delete_all(made)


def only(client: Client, *names: str) -> None:
    """From now on jobs start on these servers alone."""
    for name in SERVERS:
        client.drain(name, drain=name not in names)

    def is_so() -> bool:
        states = {node["name"]: node["state"] for node in client.nodes()}
        return all(states[name] == ("up" if name in names else "draining") for name in SERVERS)

    wait_until(is_so, PATIENCE, f"only {names} take jobs")


def submit(client: Client, rate: str, **more: Any) -> int:
    job = {
        "command": ["python3", "-u", "-c", LEARNS],
        "image": IMAGE,
        "workdir": None,
        "env": {"RATE": rate},
        "resources": {"cpus": "0.1..2"},
        "preemptible": "true",
    }
    return client.submit({**job, **more})["id"]


def where(client: Client, job: int) -> list[str]:
    return [place["node"] for place in client.job(job)["placement"]]


def learning_on(client: Client, node: str, *rates: str, **more: Any) -> list[int]:
    """Jobs that run on this server, and have said what they have learned."""
    only(client, node)
    jobs = [submit(client, rate, **more) for rate in rates]
    for job in jobs:
        wait_until(lambda job=job: client.job(job)["progress"], PATIENCE, f"job {job} learns")
        assert where(client, job) == [node]
    return jobs


def story(client: Client, job: int, kind: str) -> list[Any]:
    return [event for event in client.job_events(job) if event["kind"] == kind]


def number_said(client: Client, job: int, attempt: int, word: str) -> int:
    def found() -> list[int]:
        lines = b"".join(client.logs(job, attempt=attempt)).decode().splitlines()
        return [int(text.removeprefix(word)) for text in lines if text.startswith(word)]

    return wait_until(found, PATIENCE, f"attempt {attempt} says {word!r}")[0]


def arrived(client: Client, job: int, node: str) -> None:
    wait_until(lambda: client.job(job)["migrations"] == 1, LONG, f"job {job} has moved")
    assert where(client, job) == [node]
    assert number_said(client, job, 2, "begins at ") == number_said(client, job, 1, "ends at ") > 0


def test_who_has_converged_makes_room_for_those_who_learn(client: Client) -> None:
    client.set_policy("k8s-default")
    quick, *slow = learning_on(client, "one", FAST, SLOWLY, SLOWLY)
    (neighbour,) = learning_on(client, "two", SLOWLY)
    only(client, *SERVERS)
    wait_until(lambda: client.job(quick)["progress"]["value"] < 1e-9, PATIENCE, "it has learned all there is")
    everybody = [quick, *slow, neighbour]
    assert [client.job(job)["migrations"] for job in everybody] == [0] * 4, "the baseline moves nobody"
    assert not any(story(client, job, "category") for job in everybody), "nor does it judge anybody"
    client.set_policy("specon", params={"specon_interval": 1.0, "specon_alpha": 0.001})
    arrived(client, quick, "three")
    changes = [event["data"] for event in story(client, quick, "category")]
    assert [(change["from"], change["to"]) for change in changes] == [("PC", "WC"), ("WC", "CC")]
    assert all(change["growth"] < change["alpha"] == 0.001 for change in changes)
    (marked,) = story(client, quick, "marked")
    assert marked["node"] == "one"
    assert marked["data"]["scores"]["three"] == 0
    assert marked["data"]["scores"]["one"] > marked["data"]["scores"]["two"] > 0
    assert (marked["data"]["candidates"], marked["data"]["target"]) == (["three"], "three")
    assert "specon: converged; score" in story(client, quick, "stop")[0]["cause"]
    assert [client.job(job)["migrations"] for job in (*slow, neighbour)] == [0] * 3, "who learns stays"


def test_work_goes_to_where_it_is_done_sooner(client: Client) -> None:
    client.set_policy("k8s-default")
    jobs = learning_on(client, "one", SLOWLY, SLOWLY, steps=30_000)
    only(client, *SERVERS)
    client.set_policy("schedulearn", stages={"share": "fair"}, params={"balance_every": 1.0, "balance_rest": 600.0})
    moved = wait_until(lambda: [job for job in jobs if client.job(job)["migrations"]], LONG, "one of the two has moved")
    assert len(moved) == 1, "what the other would gain is nothing"
    (told,) = story(client, moved[0], "balanced")
    work, target = told["data"]["work"], told["data"]["target"]
    assert (told["node"], target in ("two", "three"), work[target]) == ("one", True, 0)
    assert told["data"]["gain"] > 3 * told["data"]["cost"] > 0
    arrived(client, moved[0], target)
    (other,) = set(jobs) - set(moved)
    assert (client.job(other)["attempt"], where(client, other)) == (1, ["one"])
