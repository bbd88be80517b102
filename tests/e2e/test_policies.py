"""Policies on a real service: switched while jobs run, pre-empting and resizing real processes."""

import json
from pathlib import Path

import pytest

from schedulearn.client import Client
from schedulearn.core.policies.catalogue.presets import PRESETS
from schedulearn.executors.process.cgroups import detect
from schedulearn.store import open_store
from support.jobs import ended, in_state, kinds, output, script, spec, submit, until
from support.service import PATIENCE, Service
from support.waiting import wait_until

# Counts up, one line a step, until the test makes the file GATE; saves when it is told to stop, and goes on from there.
COUNTER = """
import os, pathlib, signal, sys, time
saved = pathlib.Path(os.environ["SCHEDULEARN_CHECKPOINT_DIR"], "step")
step = int(saved.read_text()) if saved.exists() else 0
print("begins at", step, flush=True)
def stop(*_):
    mine = saved.with_name(f"step-{os.getpid()}")  # several workers save, and each may be killed meanwhile
    mine.write_text(str(step))
    mine.replace(saved)
    sys.exit(1)
signal.signal(signal.SIGTERM, stop)
while not os.path.exists(os.environ["GATE"]):
    step += 1
    if step % 20 == 0:
        print(f"step {step} loss 1.0", flush=True)
    time.sleep(0.01)
"""


@pytest.fixture(autouse=True)
def fifo_again(client: Client) -> None:
    client.set_policy("fifo")


def cores(service: Service, client: Client) -> int:
    return int(client.nodes()[0]["capacity"]["cpus"])


def test_every_preset_can_be_set_while_jobs_run(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    running = submit(client, spec(until(gate)))
    in_state(client, running, "running")
    for preset, stages in PRESETS.items():
        if stages.allocate.startswith("cores-"):
            continue  # where the one has all cores, the other waits for them
        if preset == "gandiva-pack":
            continue  # it is refused: two jobs on one device are simulated alone
        client.set_policy(preset)
        assert ended(client, submit(client, spec("true")))["state"] == "succeeded", preset
        assert client.policy()["fault"] is None, preset
    assert client.job(running)["attempt"] == 1, "nobody touched it"
    gate.touch()
    assert ended(client, running)["state"] == "succeeded"


def test_a_newcomer_takes_the_place_of_a_job_that_had_its_share(
    client: Client, service: Service, tmp_path: Path
) -> None:
    all_cores = {"cpus": cores(service, client)}
    gate, later = tmp_path / "gate", tmp_path / "later"
    client.set_policy("tiresias", params={"thresholds": "1"})
    job = script(COUNTER, resources=all_cores, preemptible="true", env={"GATE": str(gate)})
    long = submit(client, job)
    wait_until(lambda: b"step" in counted(client, long), PATIENCE, "it can save, and has something to save")
    short = submit(client, spec(until(later), resources=all_cores))
    in_state(client, short, "running")
    assert client.job(long)["state"] == "queued"
    assert client.job(long)["preemptions"] == 1
    later.touch()
    in_state(client, long, "running")
    gate.touch()
    done = ended(client, long)
    assert (done["state"], done["restarts"]) == ("succeeded", 0), "a pre-emption is not a failure"
    first, second = [b"".join(client.logs(long, attempt=n)).decode().split() for n in (1, 2)]
    assert first[:3] == ["begins", "at", "0"]
    assert int(second[2]) > 0, "it went on where it had stopped"
    assert "requeue" in kinds(client, long)


def counted(client: Client, job: int) -> bytes:
    return output(client, job) if client.job(job)["attempt"] else b""


def test_an_elastic_job_makes_room_and_grows_again(client: Client, service: Service, tmp_path: Path) -> None:
    wide = cores(service, client)
    if wide < 2:
        pytest.skip("one core cannot be shared out")
    gate, later = tmp_path / "gate", tmp_path / "later"
    client.set_policy("elastic-fifo")
    job = script(
        COUNTER,
        workers=f"1..{wide}",
        resources={"cpus": 1},
        preemptible="true",
        env={"GATE": str(gate)},
        steps=10**7,  # far from done: growing pays
    )
    big = submit(client, job)
    in_state(client, big, "running")
    assert client.job(big)["workers"] == wide
    other = submit(client, spec(until(later), resources={"cpus": 1}))
    in_state(client, other, "running")
    wait_until(lambda: client.job(big)["workers"] == wide - 1, PATIENCE, "it has made room")
    in_state(client, big, "running")
    assert client.job(big)["resizes"] == 1
    with open_store(service.data / "schedulearn.db") as store:
        ((_, attempt, *_, seconds),) = wait_until(
            lambda: [one for one in store.setting("restart_costs", ()) if one[0] == big],
            PATIENCE,
            "its restart was measured",
        )
    assert attempt == 2
    assert 0 < seconds < PATIENCE
    later.touch()
    ended(client, other)
    wait_until(lambda: client.job(big)["workers"] == wide, PATIENCE, "it has grown again")
    gate.touch()
    assert ended(client, big)["state"] == "succeeded"


def test_a_job_that_may_not_be_stopped_goes_on(client: Client, service: Service, tmp_path: Path) -> None:
    all_cores = {"cpus": cores(service, client)}
    gate = tmp_path / "gate"
    client.set_policy("tiresias", params={"thresholds": "0.2"})
    first = submit(client, spec(until(gate), resources=all_cores, preemptible="false"))
    in_state(client, first, "running")
    second = submit(client, spec("true", resources=all_cores))
    assert "the most free on one node is 0 cores" in client.explain(second)["text"]
    gate.touch()
    assert ended(client, second)["state"] == "succeeded"
    assert client.job(first)["preemptions"] == 0


@pytest.mark.skipif(detect().cpu is None and detect().unified is None, reason="this machine lets us make no groups")
def test_whole_cores_are_given_out_and_a_container_grows_where_it_is(
    client: Client, service: Service, tmp_path: Path
) -> None:
    wide = cores(service, client)
    if wide < 2:
        pytest.skip("one core cannot be shared out")
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    client.set_policy("cores-proportional")
    asks = {"cpus": f"1..{wide}"}
    alone = submit(client, spec(until(first), resources=asks))
    in_state(client, alone, "running")
    assert started_with(client, alone) == wide
    others = [submit(client, spec(until(gate), resources=asks)) for gate in (second, third)]
    assert f"asks for {wide} whole cores of one node" in client.explain(others[0])["text"]
    first.touch()
    for job in others:
        in_state(client, job, "running")
    assert [started_with(client, job) for job in others] == [wide // 2] * 2, (
        "each has the same part of what it asked for"
    )
    second.touch()
    ended(client, others[0])
    control = service.data / "jobs" / str(others[1]) / "attempts/1/0/control.json"
    wait_until(lambda: json.loads(control.read_text())["cpus"] == wide, PATIENCE, "it has grown, and was told")
    shown = client.job(others[1])
    assert (shown["attempt"], shown["workers"], shown["resizes"]) == (1, 1, 1), "without a restart"
    assert client.nodes()[0]["leased"]["cpus"] == wide
    service.kill()
    service.start()
    assert client.nodes()[0]["leased"]["cpus"] == wide
    # An earlier look, from before it grew, may be the latest that is known for some seconds.
    wait_until(lambda: limit_seen(client, others[1]) == wide, PATIENCE, "so the kernel says")
    third.touch()
    assert ended(client, others[1])["state"] == "succeeded"


def limit_seen(client: Client, job: int) -> float | None:
    """The cores that the kernel gave it at the latest look; None: nobody has looked."""
    return next((worker["latest"]["cpus_limit"] for worker in client.usage(job)), None)


def started_with(client: Client, job: int) -> int:
    """The cores that it was given when it started."""
    (cause,) = [event["cause"] for event in client.job_events(job) if event["kind"] == "start"]
    return int(cause.split()[-2])
