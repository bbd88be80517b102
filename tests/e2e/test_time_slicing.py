"""Time-slicing on a real service: real processes are suspended, go on, and are never started again."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from schedulearn.client import Client
from support.jobs import ended, in_state, kinds, script, submit
from support.service import PATIENCE, Service, job_processes, process_state
from support.waiting import wait_until

QUANTUM = 0.5  # seconds

# Writes its pid, again and again, until the test makes the file GATE.
COUNTER = """
import os, time
with open(os.environ["COUNT"], "a") as file:
    while not os.path.exists(os.environ["GATE"]):
        print(os.getpid(), file=file, flush=True)
        time.sleep(0.01)
"""


class Counting:
    """Jobs that each take the whole machine and count into a file of their own."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client, self.folder, self.gate = client, folder, folder / "gate"
        self.cores = int(client.nodes()[0]["capacity"]["cpus"])

    def submit(self, name: str, **more: Any) -> int:
        env = {"COUNT": str(self.folder / name), "GATE": str(self.gate)}
        resources = {"cpus": self.cores, "memory": "100MB"}
        return submit(self.client, script(COUNTER, name=name, resources=resources, env=env, **more))

    def lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def goes_on(self, name: str) -> None:
        """Returns when the job has counted further."""
        before = len(self.lines(name))
        wait_until(lambda: len(self.lines(name)) > before, PATIENCE, f"{name} counts")

    def pid(self, name: str) -> int:
        """Of the one process that has counted."""
        self.goes_on(name)
        (pid,) = set(self.lines(name))
        return int(pid)


@pytest.fixture
def counting(client: Client, tmp_path: Path) -> Iterator[Counting]:
    client.set_policy("gandiva", params={"quantum": str(QUANTUM)})
    yield Counting(client, tmp_path)
    client.set_policy("fifo")


def both_run(one: int, two: int) -> bool:
    """Whether both processes run at the same time. A look that took too long says nothing: turns may have changed."""
    begin = time.monotonic()
    states = [process_state(pid) for pid in (one, two, one)]
    return all(state in ("R", "S") for state in states) and time.monotonic() - begin < QUANTUM / 2


def test_two_jobs_alternate_in_one_place_and_are_never_started_again(client: Client, counting: Counting) -> None:
    first, second = counting.submit("first"), counting.submit("second")
    pids = [counting.pid("first"), counting.pid("second")]

    def enough() -> bool:
        assert not both_run(*pids)
        return all(client.job(job)["preemptions"] >= 4 for job in (first, second))

    wait_until(enough, PATIENCE, "both were suspended again and again")
    counting.gate.touch()
    for job in (first, second):
        done = ended(client, job)
        assert (done["state"], done["attempt"], done["restarts"]) == ("succeeded", 1, 0)
        assert kinds(client, job).count("worker_started") == 1
        assert kinds(client, job).count("resume") >= 3
    assert [counting.lines(name)[-1] for name in ("first", "second")] == [str(pid) for pid in pids]


def test_a_suspended_job_is_shown_paused_resumed_and_cancelled(client: Client, counting: Counting) -> None:
    client.set_policy("gandiva", params={"quantum": "3600"})  # it is the priority that decides here
    first = counting.submit("first")
    pid = counting.pid("first")
    second = counting.submit("second", priority=90)
    counting.goes_on("second")
    shown = client.job(first)
    assert (shown["state"], shown["reason"]) == ("queued", "suspended: others have their turn")
    assert shown["placement"], "it is still there"
    assert f"job {second} (second) is in its place" in client.explain(first)["text"]
    client.pause(first)
    in_state(client, first, "paused")
    client.cancel(second)
    assert ended(client, second)["state"] == "cancelled"
    assert process_state(pid) == "T", "nobody is in its place, but its user holds it"
    client.resume(first)
    counting.goes_on("first")
    third = counting.submit("third", priority=90)
    counting.goes_on("third")
    client.cancel(first)
    assert ended(client, first)["state"] == "cancelled"
    assert client.job(third)["state"] == "running"


def test_the_suspended_stay_suspended_when_the_service_is_killed(tmp_path: Path) -> None:
    with Service(tmp_path / "data") as service:
        with service.client() as client:
            client.set_policy("gandiva", params={"quantum": "3600"})
            counting = Counting(client, tmp_path)
            first = counting.submit("first")
            pid = counting.pid("first")
            second = counting.submit("second", priority=90)
            counting.goes_on("second")
        service.kill()
        assert process_state(pid) == "T"
        service.start()
        with service.client() as client:
            counting.goes_on("second")
            assert (client.job(first)["state"], process_state(pid)) == ("queued", "T")
            client.update(first, priority=95)
            counting.goes_on("first")
            in_state(client, second, "queued")
            counting.gate.touch()
            for job in (first, second):
                done = ended(client, job)
                assert (done["state"], done["attempt"]) == ("succeeded", 1)
        assert set(counting.lines("first")) == {str(pid)}


def test_another_policy_lets_the_suspended_go_on_when_their_place_is_free(client: Client, counting: Counting) -> None:
    client.set_policy("gandiva", params={"quantum": "3600"})
    first = counting.submit("first")
    pid = counting.pid("first")
    second = counting.submit("second", priority=90)
    counting.goes_on("second")
    client.set_policy("fifo")
    counting.goes_on("second")
    assert process_state(pid) == "T"
    client.cancel(second)
    counting.goes_on("first")
    assert client.job(first)["attempt"] == 1
    counting.gate.touch()
    assert ended(client, first)["state"] == "succeeded"


def test_a_suspended_job_that_is_killed_from_outside_fails(
    client: Client, counting: Counting, service: Service
) -> None:
    client.set_policy("gandiva", params={"quantum": "3600"})
    first = counting.submit("first")
    counting.pid("first")
    second = counting.submit("second", priority=90)
    counting.goes_on("second")
    for pid in job_processes(service.data, f"{first}.1.0"):
        with suppress(ProcessLookupError):  # it has gone with its supervisor
            os.kill(pid, signal.SIGKILL)
    assert ended(client, first)["state"] == "failed"
    counting.gate.touch()
    assert ended(client, second)["state"] == "succeeded"
