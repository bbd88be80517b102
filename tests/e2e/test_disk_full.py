"""The disk is full: the service says so, running jobs are not harmed, and it goes on when there is space again."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from schedulearn.client import Client, ClientError
from schedulearn.client.streams import surely
from support import disks
from support.disks import fill
from support.jobs import ended, in_state, output, spec, submit, until
from support.service import PATIENCE, Service
from support.waiting import wait_until


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder that holds a few megabytes."""
    with disks.small_disk(tmp_path / "disk", 6) as disk:
        yield disk


def refused(client: Client, job: dict[str, object]) -> str:
    """What the service says when it cannot take a job; empty if it took it."""
    try:
        client.submit(job)
    except ClientError as error:
        return str(error)
    return ""


def test_a_full_disk_is_told_harms_no_running_job_and_is_recovered_from(
    small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedulearn.client.client.surely", partial(surely, seconds=0.5))  # nobody waits a minute here
    gate, more = tmp_path / "gate", tmp_path / "more"
    with Service(small_disk / "data") as service, service.client() as client:
        command = "echo before; " + until(gate, "echo lost; ") + until(more, "echo after")
        job = submit(client, spec(command))
        in_state(client, job, "running")
        wait_until(lambda: output(client, job) == b"before\n", PATIENCE)
        filler = fill(small_disk)
        said = wait_until(lambda: refused(client, spec("true", env={"LONG": "x" * 30_000})), PATIENCE)
        assert "disk is full" in said
        gate.touch()
        assert client.job(job)["state"] == "running"
        assert client.health()["status"] == "ok"
        filler.unlink()
        more.touch()
        assert ended(client, job)["state"] == "succeeded"
        lines = output(client, job).splitlines()
        assert (lines[0], lines[-1]) == (b"before", b"after")
        assert ended(client, submit(client, spec("echo again")))["state"] == "succeeded"


def test_a_job_that_ends_while_the_disk_is_full_is_not_lost(small_disk: Path, tmp_path: Path) -> None:
    gate, gone = tmp_path / "gate", tmp_path / "gone"
    with Service(small_disk / "data") as service, service.client() as client:
        job = submit(client, spec(until(gate, f"touch {gone}; exit 3")))
        in_state(client, job, "running")
        filler = fill(small_disk)
        gate.touch()
        wait_until(gone.exists, PATIENCE)
        service.kill()
        filler.unlink()
        service.start()
        done = ended(client, job)
        assert (done["state"], done["exit"]["code"], done["attempt"]) == ("failed", 3, 1)


def test_a_disk_that_is_full_at_the_start_is_told(small_disk: Path) -> None:
    filler = fill(small_disk)
    service = Service(small_disk / "data")
    service.log = small_disk.with_name("service.log")
    try:
        with pytest.raises((AssertionError, ClientError)):
            service.start()
        assert "Traceback" not in service.output()
        assert any(word in service.output() for word in ("full", "No space left"))
    finally:
        filler.unlink()
        service.clean_up()


def test_the_job_that_fills_the_disk_fails_for_it_and_can_be_removed(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with disks.small_disk(tmp_path / "disk", 24) as disk, Service(disk / "data") as service, service.client() as client:
        other = submit(client, spec(until(gate, "echo unharmed")))
        in_state(client, other, "running")
        wait_until(lambda: client.nodes()[0]["storage"], PATIENCE)  # what everything takes was measured
        fills = submit(client, spec("dd if=/dev/zero of=large bs=64k; exec sleep 1000", max_restarts=3))
        done = ended(client, fills)
        assert (done["state"], done["attempt"]) == ("failed", 1)
        assert "disk is nearly full" in done["reason"]
        client.delete(fills)
        wait_until(lambda: not (disk / "data" / "jobs" / str(fills)).exists(), PATIENCE)
        gate.touch()
        assert ended(client, other)["state"] == "succeeded"
        assert ended(client, submit(client, spec("echo again")))["state"] == "succeeded"


def test_a_job_can_be_removed_from_a_full_disk(tmp_path: Path) -> None:
    with disks.small_disk(tmp_path / "disk", 24) as disk, Service(disk / "data") as service, service.client() as client:
        job = submit(client, spec("dd if=/dev/zero of=large bs=64k count=16"))
        assert ended(client, job)["state"] == "succeeded"
        files, reserve = disk / "data" / "jobs" / str(job), disk / "data" / "reserve"
        wait_until(reserve.exists, PATIENCE)
        disks.fill_at_once(disk)
        wait_until(lambda: not reserve.exists(), PATIENCE)  # what was kept back is given up
        client.delete(job)
        wait_until(lambda: not files.exists(), PATIENCE)
