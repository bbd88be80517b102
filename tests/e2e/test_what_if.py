"""`compare --now` and `explain` on a real service: what they tell of jobs that run and wait."""

import json
from pathlib import Path

import pytest

from schedulearn.client import Client
from support.jobs import ended, in_state, spec, submit, until
from support.service import PATIENCE, Service
from support.waiting import wait_until


@pytest.fixture
def cores(client: Client) -> float:
    client.set_policy("fifo")
    wait_until(lambda: client.policy()["preset"] == "fifo", PATIENCE, "it is in force")
    return client.nodes()[0]["capacity"]["cpus"]


def whole(cores: float, command: str, **more: object) -> dict[str, object]:
    """A job that leaves no core to another."""
    return spec(command, resources={"cpus": cores}, **more)


def test_what_if_on_a_queue(service: Service, client: Client, cores: float, tmp_path: Path) -> None:
    """Three earlier jobs of a name say how long such a job takes."""
    gate = tmp_path / "gate"
    for name, command in (("short", "true"), ("slow", "sleep 2")):
        for _ in range(3):
            assert ended(client, submit(client, whole(cores, command, name=name)))["state"] == "succeeded"
    running = submit(client, whole(cores, until(gate), name="short"))
    in_state(client, running, "running")
    waiting = [submit(client, whole(cores, "sleep 2", name="slow")), submit(client, whole(cores, "true", name="short"))]

    told = json.loads(service.cli("compare", "--now", "--policies", "fifo,srjf", "--json").stdout)
    assert told["policies"] == ["fifo", "srjf"]
    by_job = {job["job"]: job for job in told["jobs"]}
    assert list(by_job) == [running, *waiting], "in the order in which they end under the policy in force"
    assert {job["source"] for job in told["jobs"]} == {"jobs of the same user, name and size"}
    ends = {name: [by_job[job]["finishes"][name]["expected"] for job in waiting] for name in ("fifo", "srjf")}
    assert ends["fifo"][0] < ends["fifo"][1]
    assert ends["srjf"][1] < ends["srjf"][0], "the short one goes first"

    shown = service.cli("compare", "--now", "--policies", "srjf")
    head, *rows = shown.stdout.splitlines()
    assert head.split() == ["job", "name", "state", "fifo", "(now)", "srjf"]
    assert [row.split()[0] for row in rows[:3]] == [str(job) for job in (running, *waiting)]
    assert "average completion" in rows[3]
    assert "if no other job comes" in shown.stderr
    gate.touch()


def test_nothing_to_foresee_and_nothing_to_replay(service: Service, client: Client, cores: float) -> None:
    before = len(client.studies())
    refused = service.cli("compare", "--now")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "no job runs or waits" in refused.stderr
    for words in (("--trace", "x.csv"), ("--oracle",), ("--seeds", "2"), ("--out", "x")):
        refused = service.cli("compare", "--now", *words)
        assert refused.returncode == 2
        assert f"{words[0]}: it cannot be combined with --now" in refused.stderr
    assert len(client.studies()) == before, "nothing was begun"


def test_explain_says_why_a_job_has_its_size_and_its_place(
    service: Service, client: Client, cores: float, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    fixed = submit(client, spec(until(gate), workers=2))
    ranged = submit(client, spec(until(gate), workers={"min": 1, "want": 1, "max": 3}))
    for job in (fixed, ranged):
        in_state(client, job, "running")
    assert "2 workers: it asks for 2." in service.cli("explain", str(fixed)).stdout
    shown = service.cli("explain", str(ranged)).stdout
    assert "1 of 3 workers: it asks for 1, and `rigid` changes no job's size while it runs." in shown
    assert "On local, where `pack` found room." in shown
    client.set_policy("elastic-fifo")
    why = "it may not be interrupted before a checkpoint of it was seen"
    wait_until(lambda: why in client.explain(ranged)["size"], PATIENCE, "the other policy is in force")
    gate.touch()
