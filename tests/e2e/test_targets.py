"""Real programs whose loss falls, and what becomes of them when it is low enough."""

from typing import Any

from schedulearn.client import Client
from support.jobs import ended, in_state, kinds, script, submit
from support.service import PATIENCE, Service
from support.waiting import wait_until

# Fits a line by gradient descent with the standard library; goes on until it is stopped, saves then, and starts there.
TRAINS = """
import os, pathlib, random, signal, sys, time
saved = pathlib.Path(os.environ["SCHEDULEARN_CHECKPOINT_DIR"], "weight")
weight = float(saved.read_text()) if saved.exists() else 0.0
saved.write_text(str(weight))
def save(*_):
    saved.write_text(str(weight))
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
draw = random.Random(1)
data = [(x, 3.0 * x) for x in (draw.uniform(-1, 1) for _ in range(50))]
while True:
    loss = sum((weight * x - y) ** 2 for x, y in data) / len(data)
    weight -= 0.1 * sum(2 * (weight * x - y) * x for x, y in data) / len(data)
    print(f"loss: {loss:.6f}", flush=True)
    time.sleep(0.05)
"""


def reached(client: Client, job: int) -> Any:
    def look() -> Any:
        found = client.job(job)
        return found if found["reached_at"] else None

    return wait_until(look, PATIENCE, f"job {job} has reached its target")


def test_it_saves_and_ends_well(service: Service, client: Client) -> None:
    job = submit(client, script(TRAINS, target={"loss": 0.05, "then": "stop"}))
    assert ended(client, job)["state"] == "succeeded"
    assert kinds(client, job).count("target_reached") == 1
    (told,) = [event for event in client.job_events(job) if event["kind"] == "target_reached"]
    assert told["data"]["value"] <= 0.05
    assert sum(value <= 0.05 for value in told["data"]["values"]) >= 2
    assert "its target is reached" in client.job(job)["reason"]
    weight = float((service.data / "jobs" / str(job) / "checkpoint" / "weight").read_text())
    assert abs(weight - 3.0) < 1.0
    words = service.cli("describe", str(job)).stdout
    assert "loss ≤ 0.05, then stop; reached at" in words


def test_one_that_yields_makes_way_for_who_waits_and_goes_on(service: Service, client: Client) -> None:
    whole = {"cpus": service_cores(client)}
    job = submit(client, script(TRAINS, resources=whole, preemptible=True))
    in_state(client, job, "running")
    other = submit(client, script("print('mine')", resources=whole))
    assert client.job(other)["state"] == "queued"
    changed = service.cli("update", str(job), "--target", "loss=0.05")
    assert "loss ≤ 0.05, then yield" in changed.stdout, changed.stderr
    assert reached(client, job)["spec"]["target"] == {"loss": 0.05, "then": "yield"}
    assert ended(client, other)["state"] == "succeeded", "under fifo, which interrupts nobody else"
    again = in_state(client, job, "running")
    assert (again["preemptions"], again["attempt"]) == (1, 2)
    service.kill()
    service.start()
    with service.client() as later:
        assert later.job(job)["reached_at"] == again["reached_at"]
        assert "It reached its target (loss at most 0.05)" in later.explain(job)["text"]
        later.cancel(job)
        assert ended(later, job)["state"] == "cancelled"


def service_cores(client: Client) -> float:
    (local,) = client.nodes()
    return float(local["capacity"]["cpus"])
