"""The service over TLS with a certificate of its own: every verb, jobs that report, streams, and the page."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedulearn.client import Client
from schedulearn.pinned import address_of, with_pin, without_pin
from support.service import PATIENCE, Service, run_cli
from support.waiting import wait_until

# Nothing but HTTP can bring this: there is no spool that the service could read instead.
REPORTS = """
import os
del os.environ["SCHEDULEARN_SPOOL"]
import schedulearn.job
schedulearn.job.report(step=3, loss=0.25)
print("reported", flush=True)
import time
time.sleep(600)
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("tls") / "data", "--tls", "--host", "0.0.0.0") as running:
        yield running


def test_the_fingerprint_is_shown_and_found(service: Service) -> None:
    pin = address_of(service.url).pin
    said = service.output()
    assert f"fingerprint: sha256={pin}" in said
    assert f":{service.port}#sha256={pin}" in said
    assert f"address: https://127.0.0.1:{service.port}\n" in said
    assert run_cli("ls", env={"SCHEDULEARN_DATA": str(service.data)}).returncode == 0
    plain = run_cli("ls", env={"SCHEDULEARN_URL": f"http://127.0.0.1:{service.port}", "SCHEDULEARN_TOKEN": "x"})
    assert plain.returncode == 4


def test_who_has_another_fingerprint_is_told_and_sends_nothing(service: Service) -> None:
    env = {"SCHEDULEARN_URL": with_pin(service.url, "0" * 64), "SCHEDULEARN_TOKEN": service.token}
    refused = run_cli("ls", env=env)
    assert refused.returncode == 4
    assert "is not trusted" in refused.stderr
    assert address_of(service.url).pin in refused.stderr


def test_a_job_reports_and_can_be_followed_and_visited(service: Service) -> None:
    with service.client() as client:
        job = client.submit({"command": ["python", "-c", REPORTS], "resources": {"cpus": 0.1}, "workdir": None})["id"]
        events = client.events(after=0, follow=True)
        assert next(event for event in events if event["kind"] == "submitted")["job"] == job
        wait_until(lambda: client.job(job)["progress"], PATIENCE, "the report has arrived")
        assert client.job(job)["progress"]["step"] == 3
        beside = service.cli("exec", str(job), "--", "printenv", "SCHEDULEARN_URL")
        assert beside.stdout.strip() == service.url
        client.cancel(job)
    assert "reported" in service.cli("logs", "--follow", str(job)).stdout


def page(url: str, method: str, path: str, body: str = "", **headers: str) -> http.client.HTTPResponse:
    connection = address_of(url).connect(PATIENCE)
    headers |= {"Content-Type": "application/x-www-form-urlencoded", "Origin": without_pin(url)}
    try:
        connection.request(method, path, body or None, headers)
        answer = connection.getresponse()
        answer.read()
        return answer
    finally:
        connection.close()


def logs_in(url: str, token: str) -> None:
    welcome = page(url, "POST", "/login", f"token={token}")
    cookie = str(welcome.getheader("Set-Cookie"))
    assert welcome.status == 303
    assert cookie.startswith("__Host-schedulearn-")
    assert "; Secure" in cookie
    assert page(url, "GET", "/", Cookie=cookie.partition(";")[0]).status == 200
    assert page(url, "GET", "/").status == 303


def test_the_page_beside_the_service(service: Service) -> None:
    logs_in(service.url, service.token)


def test_the_page_alone_knows_its_service_by_the_fingerprint(service: Service, tmp_path: Path) -> None:
    folder = tmp_path / "page"
    words = ("up", "--only", "dashboard", "--url", service.url, "--port", "0", "--tls", "--data", str(folder))
    try:
        started = run_cli(*words, "--detach")
        assert started.returncode == 0, started.stderr
        logs_in(json.loads((folder / "dashboard.json").read_text())["url"], service.token)
        assert (folder / "dashboard-logins.json").exists()
    finally:
        run_cli("down", "--data", str(folder))


def test_the_certificate_outlives_the_service(tmp_path: Path) -> None:
    with Service(tmp_path / "data", "--tls") as service:
        before = service.url
        service.restart()
        assert service.url == before


def test_a_certificate_of_ones_own(service: Service, tmp_path: Path) -> None:
    files = service.data / "tls-server"
    given = ("--tls-cert", str(files / "cert.pem"), "--tls-key", str(files / "key.pem"))
    with Service(tmp_path / "data", *given) as other:
        assert address_of(other.url).pin == address_of(service.url).pin
        with other.client() as client:
            assert client.whoami()["role"] == "admin"


def test_jobs_are_given_the_fingerprint_with_another_address_too(tmp_path: Path) -> None:
    with (
        Service(tmp_path / "data", "--tls", "--url", "https://lab.example:7311") as service,
        service.client() as client,
    ):
        assert isinstance(client, Client)
        job = client.submit({"command": "printenv SCHEDULEARN_URL", "resources": {"cpus": 0.1}, "workdir": None})["id"]
        client.wait(job)
        pin = address_of(service.url).pin
        assert client.log_part(job, 1, 0, tail=10)[0].decode().strip() == f"https://lab.example:7311#sha256={pin}"
