"""Notices of the ends of real jobs, by a real service, to a real web server and through a real command."""

import email
from collections.abc import Iterator
from email.policy import default
from pathlib import Path

import pytest

from schedulearn.client import Client
from support.jobs import ended, spec, submit
from support.receiver import Receiver, receiver
from support.service import Service, run_cli
from support.waiting import wait_until


def told_of(client: Client, job: int) -> list[str]:
    """What became of the notices of a job."""
    return [notice["state"] for notice in client.notify()["notices"] if f"job {job} " in notice["text"]]


@pytest.fixture(scope="module")
def receiving() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


@pytest.fixture
def hook(receiving: Receiver) -> Receiver:
    receiving.got.clear()
    receiving.hold.set()
    return receiving


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, receiving: Receiver) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("notify")
    command = f"tee -a {folder}/mail"
    with Service(folder / "data", "--mail-command", command, "--allow-notify", receiving.url) as running:
        yield running


def test_a_failed_job_tells_by_web_and_by_mail_and_the_story_is_shown(service: Service, hook: Receiver) -> None:
    with service.client() as client:
        client.set_notify(["failed:ann@example.org"])
        job = submit(client, spec("echo loss: 0.5; exit 3", name="<b>mnist</b>", notify=[f"{hook.url}/x"]))
        ended(client, job)
        (got,) = hook.wait_for(1)
        assert got.signed_with(client.notify_secret())
        assert got.body["type"] == "job.failed"
        assert got.body["data"]["job"] == job
        assert got.body["data"]["url"] == f"{service.url}/api/v1/jobs/{job}"
        wait_until(lambda: told_of(client, job) == ["sent", "sent"], 60)
    message = email.message_from_bytes(service.data.with_name("mail").read_bytes(), policy=default)
    assert message["To"] == "ann@example.org"
    assert message["Subject"] == f"Schedulearn: job {job} (<b>mnist</b>) has failed"
    shown = service.cli("notify")
    assert shown.returncode == 0
    assert f"job {job} (<b>mnist</b>) has failed" in shown.stdout


def test_a_service_that_is_killed_before_the_answer_tells_it_again(service: Service, hook: Receiver) -> None:
    hook.hold.clear()
    with service.client() as client:
        job = submit(client, spec("true", notify=[f"{hook.url}/x"]))
        assert ended(client, job)["state"] == "succeeded"
        hook.wait_for(1)
        service.kill()
        hook.hold.set()
        service.start()
        first, second = hook.wait_for(2)
        assert first.headers["webhook-id"] == second.headers["webhook-id"]
        assert second.body["data"]["job"] == job
        wait_until(lambda: told_of(client, job) == ["sent"], 60)
    assert len(hook.got) == 2


def test_a_receiver_that_hangs_delays_no_job(service: Service, hook: Receiver) -> None:
    hook.hold.clear()
    with service.client() as client:
        for _ in range(3):
            ended(client, submit(client, spec("true", notify=[f"{hook.url}/x"])))
        hook.wait_for(1)
        ended(client, submit(client, spec("true")))
        assert service.stop() == 0


def test_rules_that_cannot_be_are_refused_at_the_start(tmp_path: Path) -> None:
    for words, said in (
        (["--allow-notify", "example.org"], "--allow-notify"),
        (["--mail-command", "no-such-program -t"], "there is no program no-such-program"),
    ):
        refused = run_cli("up", "--data", str(tmp_path / "d"), *words)
        assert refused.returncode == 2
        assert said in refused.stderr
