"""Real workers come and go while their job runs on: nobody who stays is restarted, whoever dies."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schedulearn.client import ApiError, Client
from support.jobs import ended, in_state, kinds, script, submit
from support.service import PATIENCE, Service
from support.waiting import wait_until

# All that a program must do whose workers come and go: leave when it no longer belongs to the group. It notes its pid
# under its worker's name, and ends when the test makes the file GATE.
MEMBER = """
import json, os, pathlib, sys, time
worker, gate = os.environ["SCHEDULEARN_WORKER"], os.environ["GATE"]
with open(pathlib.Path(os.environ["NOTES"], worker), "a") as notes:
    print(os.getpid(), file=notes)
while not os.path.exists(gate):
    try:
        members = json.loads(pathlib.Path(os.environ["SCHEDULEARN_CONTROL"]).read_text())["members"]
    except (OSError, ValueError):
        continue
    if int(worker.split(".")[2]) not in members:
        sys.exit(0)
    time.sleep(0.02)
"""


class Crew:
    """Jobs that can have up to four workers on all the cores of this machine."""

    def __init__(self, service: Service, client: Client, notes: Path) -> None:
        self.service, self.client, self.notes = service, client, notes
        notes.mkdir()
        (node,) = client.nodes()
        self.each = round(node["free"]["cpus"] / 4, 2) - 0.01
        client.set_policy("elastic-fifo")

    def submit(self, name: str, **more: Any) -> int:
        env = {"NOTES": str(self.notes), "GATE": str(self.gate(name))}
        more = {"workers": "1..4", "launcher": "elastic", "preemptible": "true", **more}
        job = script(MEMBER, name=name, env=env, resources={"cpus": self.each}, **more)
        job["command"].insert(1, "-S")  # it needs no packages
        return submit(self.client, job)

    def gate(self, name: str) -> Path:
        return self.notes / f"gate-{name}"

    def open(self, name: str) -> None:
        self.gate(name).touch()

    def pids(self, job: int, *ranks: int) -> list[str]:
        """Of these workers of its first attempt; each must have been started once."""
        files = [self.notes / f"{job}.1.{rank}" for rank in ranks]
        wait_until(lambda: all(f.exists() and f.read_text().endswith("\n") for f in files), PATIENCE, "workers began")
        found = [file.read_text().split() for file in files]
        assert all(len(pids) == 1 for pids in found), "a worker was started twice"
        return [pids[0] for pids in found]

    def has(self, job: int, ranks: list[int]) -> Any:
        """Wait until it has just these workers, and all of them run."""

        def look() -> Any:
            (*_, attempt) = self.client.attempts(job) or [None]
            workers = [w for w in (attempt or {}).get("workers", ()) if not w["left_at"] and not w["ended_at"]]
            right = [int(w["worker"].split(".")[2]) for w in workers] == ranks
            return right and all(w["started_at"] for w in workers) and self.client.job(job)

        found = wait_until(look, PATIENCE, f"job {job} has workers {ranks}")
        assert (found["state"], found["attempt"], found["workers"]) == ("running", 1, len(ranks))
        return found


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("service") / "data"
    with Service(data, "--regrow-after", "1s") as running:
        yield running


@pytest.fixture
def crew(service: Service, client: Client, tmp_path: Path) -> Crew:
    return Crew(service, client, tmp_path / "notes")


def test_a_job_makes_room_and_grows_again_while_its_first_workers_run_on(crew: Crew, client: Client) -> None:
    first = crew.submit("first")
    crew.has(first, [0, 1, 2, 3])
    pids = crew.pids(first, 0, 1)
    second = crew.submit("second")
    crew.has(first, [0, 1])
    crew.has(second, [0, 1])
    crew.open("second")
    assert ended(client, second)["state"] == "succeeded"
    crew.has(first, [0, 1, 4, 5])
    assert crew.pids(first, 0, 1) == pids
    crew.open("first")
    done = ended(client, first)
    assert (done["state"], done["attempt"], done["resizes"], done["restarts"]) == ("succeeded", 1, 2, 0)
    told = [event["cause"] for event in client.job_events(first) if event["kind"] == "resized"]
    assert told == ["shrinks from 4 to 2 workers without a restart", "grows from 2 to 4 workers without a restart"]


def test_a_worker_that_is_killed_is_replaced_and_the_others_run_on(crew: Crew, client: Client) -> None:
    job = crew.submit("killed")
    crew.has(job, [0, 1, 2, 3])
    pids = crew.pids(job, 1, 2, 3)
    os.kill(int(crew.pids(job, 0)[0]), signal.SIGKILL)
    crew.has(job, [1, 2, 3, 4])
    assert crew.pids(job, 1, 2, 3) == pids
    crew.open("killed")
    assert ended(client, job)["state"] == "succeeded"
    story = client.job_events(job)
    (lost,) = [event for event in story if event["kind"] == "worker_lost"]
    assert lost["cause"] == f"worker {job}.1.0 killed by SIGKILL; the other 3 go on"
    assert "resized" in kinds(client, job)


def test_the_range_is_changed_while_it_runs(crew: Crew, client: Client) -> None:
    job = crew.submit("ranged", workers="1..2")
    crew.has(job, [0, 1])
    pids = crew.pids(job, 0, 1)
    other = crew.submit("other", workers=1)
    crew.has(other, [0])
    with pytest.raises(ApiError, match="there is room for 1 more at present: at least 3 could be asked for now"):
        client.update(job, workers="4..8")
    with pytest.raises(ApiError, match="all nodes together have room for 4"):
        client.update(job, workers="5..8")
    with pytest.raises(ApiError, match="workers: the numbers are not in order"):
        client.update(job, workers={"min": 3, "max": 2})
    said = crew.service.cli("update", str(job), "--workers", "3..8")
    assert (said.returncode, said.stderr) == (0, "")
    assert "3..8 workers" in said.stdout
    crew.has(job, [0, 1, 2])
    assert crew.pids(job, 0, 1) == pids
    client.update(job, workers=1)
    crew.has(job, [0])
    assert client.job(job)["spec"]["workers"] == 1
    assert crew.pids(job, 0) == pids[:1]
    crew.open("other")
    crew.open("ranged")
    assert ended(client, job)["state"] == "succeeded"
    ended(client, other)


@pytest.mark.parametrize("preset", ["elastic-fifo", "elastic-srjf", "elastic-tiresias", "ffdl", "afs-l"])
def test_every_elastic_preset_resizes_running_jobs(crew: Crew, client: Client, preset: str) -> None:
    client.set_policy(preset)
    first = crew.submit(f"{preset}-first")
    crew.has(first, [0, 1, 2, 3])
    pids = crew.pids(first, 0)
    second = crew.submit(f"{preset}-second")
    wait_until(lambda: client.job(second)["workers"], PATIENCE, "the first job has made room")
    assert client.job(first)["workers"] < 4
    crew.open(f"{preset}-second")
    assert ended(client, second)["state"] == "succeeded"
    wait_until(lambda: client.job(first)["workers"] == 4, PATIENCE, "it has grown again")
    assert crew.pids(first, 0) == pids
    crew.open(f"{preset}-first")
    done = ended(client, first)
    assert (done["state"], done["attempt"]) == ("succeeded", 1)


def test_the_service_is_killed_whenever_workers_come_or_go(crew: Crew, client: Client) -> None:
    job = crew.submit("long")
    crew.has(job, [0, 1, 2, 3])
    pids = crew.pids(job, 0)
    for number in range(2):
        other = crew.submit(f"other-{number}", workers=2)
        in_state(client, job, "running")
        crew.service.kill()
        crew.service.start()
        wait_until(lambda: client.job(job)["workers"] == 2, PATIENCE, "it has made room")
        crew.has(other, [0, 1])
        crew.open(f"other-{number}")
        ended(client, other)
        crew.service.kill()
        crew.service.start()
        wait_until(lambda: client.job(job)["workers"] == 4, PATIENCE, "it has grown again")
    assert crew.pids(job, 0) == pids
    crew.open("long")
    assert ended(client, job)["attempt"] == 1
    workers = [worker["worker"] for worker in client.attempts(job)[0]["workers"]]
    crew.pids(job, *(rank for rank in range(len(workers)) if (crew.notes / f"{job}.1.{rank}").exists()))
    (node,) = client.nodes()
    assert node["jobs"] == []
