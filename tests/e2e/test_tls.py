"""The service over TLS with a certificate of its own: every verb, jobs that report, streams, and the page."""

import http.client
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from schedulearn.client import Client
from schedulearn.pinned import address_of, with_pin, without_pin
from support.service import PATIENCE, Service, run_cli
from support.tls import dated
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
    assert plain.stderr.startswith("error: this port speaks TLS: its address begins with https://\n")


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


# Reports all the time.
GOES_ON = """
import itertools, time
import schedulearn.job
for step in itertools.count():
    schedulearn.job.report(step=step, loss=0.5)
    schedulearn.job.flush()
    time.sleep(0.05)
"""


def test_the_certificate_outlives_the_service_and_who_knew_it_is_told_of_another(tmp_path: Path) -> None:
    with Service(tmp_path / "data", "--tls") as service:
        before = service.url
        service.restart()
        assert service.url == before
        with service.client() as client:
            command = [sys.executable, "-c", GOES_ON]
            job = client.submit({"command": command, "resources": {"cpus": 0.1}, "workdir": None})["id"]
            wait_until(lambda: client.job(job)["progress"], PATIENCE, "the job reports")
        service.stop()
        shutil.rmtree(service.data / "tls-server")
        service.start()
        pins = [address_of(url).pin for url in (service.url, before)]
        words = "its certificate has the fingerprint sha256={}, not {}: nothing was sent to it".format(*pins)
        refused = run_cli("ls", env={"SCHEDULEARN_URL": before, "SCHEDULEARN_TOKEN": service.token})
        assert refused.returncode == 4
        assert refused.stderr.startswith(f"error: what answers at {without_pin(before)} is not trusted: {words}\n")
        with service.client() as client:
            told = f"reports are not sent, since what answers is not trusted: {words}"
            wait_until(lambda: told in job_output(client, job), PATIENCE, "the job tells why it does not send")
            steps = client.job(job)["progress"]["step"]
            client.cancel(job)
            client.wait(job, PATIENCE)
            wait_until(lambda: client.job(job)["progress"]["step"] > steps, PATIENCE, "what was kept is found")
            assert job_output(client, job).count("not trusted") == 1
        page_tells(before, tmp_path / "page", words)


def job_output(client: Client, job: int) -> str:
    return b"".join(client.logs(job)).decode()


def page_tells(service: str, folder: Path, words: str) -> None:
    """A page alone that knows its service by this address says it to whoever comes."""
    try:
        started = run_cli("up", "--only", "dashboard", "--url", service, "--port", "0", "--data", str(folder), "-d")
        assert started.returncode == 0, started.stderr
        with pytest.raises(HTTPError) as refused:
            urlopen(json.loads((folder / "dashboard.json").read_text())["url"] + "/login")
        with refused.value as answer:
            assert (answer.code, words in answer.read().decode()) == (503, True)
    finally:
        run_cli("down", "--data", str(folder))
    assert "Traceback" not in (folder / "dashboard.log").read_text()


def test_a_certificate_of_ones_own_that_has_expired(tmp_path: Path) -> None:
    shown = dated(tmp_path / "dated", -9, -2)
    with Service(tmp_path / "data", "--tls-cert", str(shown.cert), "--tls-key", str(shown.key)) as service:
        assert f"Warning: The certificate {shown.cert} has expired on " in service.output()
        assert address_of(service.url).pin == shown.pin
        with service.client() as client:  # whoever knows its fingerprint looks at nothing else
            assert client.whoami()["role"] == "admin"
        url, env = without_pin(service.url), {"SCHEDULEARN_TOKEN": service.token, "SSL_CERT_FILE": str(shown.cert)}
        refused = run_cli("ls", env={"SCHEDULEARN_URL": url, **env})
        assert refused.returncode == 4
        assert refused.stderr.startswith(f"error: what answers at {url} is not trusted: its certificate has expired\n")


def test_a_key_that_others_can_read_is_refused(service: Service, tmp_path: Path) -> None:
    """Before anything else is begun."""
    words = ("up", "--data", str(tmp_path / "data"), "--tls-cert", str(service.data / "tls-server" / "cert.pem"))
    with tempfile.NamedTemporaryFile(dir="/tmp") as key:
        key.write((service.data / "tls-server" / "key.pem").read_bytes())
        key.flush()
        Path(key.name).chmod(0o644)
        refused = run_cli(*words, "--tls-key", key.name)
        assert (refused.returncode, f"chmod 600 {key.name}" in refused.stderr) == (2, True)
    assert not (tmp_path / "data").exists()


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
