"""The page over TLS, with the certificate that the service made: in a real Chromium that knows this one key."""

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from schedulearn.client import Client
from schedulearn.pinned import without_pin
from support.browser import Browser, Page
from support.service import PATIENCE, Service
from support.tls import key_hash
from support.waiting import wait_until

from .conftest import page_alone, submit


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("tls") / "data", "--tls") as running:
        yield running
        assert "Traceback" not in running.output()


@pytest.fixture(scope="module")
def browser(service: Service) -> Iterator[Browser]:
    with Browser(key_hash(service.data / "tls-server" / "cert.pem")) as running:
        yield running


def is_used(page: Page, client: Client, home: str) -> None:
    """Jobs come and change on it without a reload, and a button does what it says."""
    job = submit(client, "seen")
    page.wait_for("seen")
    page.click("seen")
    page.wait_for("running")
    page.click("Pause")
    page.wait_for("paused")
    wait_until(lambda: client.job(job)["state"] == "paused", PATIENCE, "it is paused")
    client.resume(job)
    page.wait_for("resumed")
    # All of that over web sockets: the page could do without, slowly.
    sockets = f"wss{home.removeprefix('https')}/"
    assert page.open_sockets
    assert [one for one in page.sockets.values() if not one.startswith(sockets)] == []
    assert [one for one in page.requests if "transport=polling" in one] == []
    assert page.problems == []
    (cookie,) = page.cookies()
    assert cookie["name"] == f"__Host-schedulearn-{home.rpartition(':')[2]}"
    assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, True, "Lax", "/")
    assert page.script("document.cookie") == ""
    assert page.script("isSecureContext") is True


def test_the_page_beside_its_service(page_of: Callable[..., Page], client: Client, service: Service) -> None:
    is_used(page_of(), client, without_pin(service.url))


def test_the_page_alone(page_of: Callable[..., Page], client: Client, service: Service, tmp_path: Path) -> None:
    """It knows the service by its fingerprint, and browsers know it by the same certificate."""
    files = service.data / "tls-server"
    shown = ("--tls-cert", str(files / "cert.pem"), "--tls-key", str(files / "key.pem"))
    with page_alone(service.url, tmp_path / "log", *shown) as home:
        assert home.startswith("https://")
        is_used(page_of(url=home), client, home)
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_who_comes_without_tls_is_told(browser: Browser, service: Service) -> None:
    with browser.page() as page:
        page.open(f"http://127.0.0.1:{service.port}/")
        page.wait_for("its address begins with https://")
        assert page.cookies() == []
    for sent in (b"\x16\x03\x01 no TLS at all", b"\0\r\n\r\n"):
        with closing(socket.create_connection(("127.0.0.1", service.port), PATIENCE)) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            assert b"HTTP" not in connection.recv(1000)
    said = service.output().partition("stop (jobs keep running)")[2].splitlines()
    assert said[1:] == [], "it is not worth a line in the log"
