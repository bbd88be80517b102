"""A real service, a real Chromium, and pages in it of people who are logged in."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from schedulearn.client import Client
from schedulearn.pinned import without_pin
from support.browser import Browser, Page
from support.jobs import delete_all
from support.quick import QuickProcess
from support.service import Service, environment
from support.waiting import wait_until

# Trains for a while: prints its loss, then waits to be told to stop.
TRAIN = """
import time
for step in range(1, 31):
    print(f"step {step}/30 loss {1 / step:.4f}", flush=True)
    time.sleep(0.02)
print("\\x1b[32mwaiting\\x1b[0m", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("service") / "data") as running:
        yield running


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with service.client() as made:
        yield made
        delete_all(made)


def link(service: Service, user: str | None = None, url: str = "") -> str:
    with service.client() as admin:
        return f"{url or without_pin(service.url)}/login?once={admin.login_code(user)['code']}"


@pytest.fixture
def page_of(browser: Browser, service: Service) -> Iterator[Callable[..., Page]]:
    """Makes windows of people who are logged in. In none of them may anything go wrong, or come from elsewhere."""
    opened: list[tuple[Page, str]] = []

    def make(path: str = "/", user: str | None = None, url: str = "") -> Page:
        page, home = browser.page(), url or without_pin(service.url)
        opened.append((page, home))
        page.resize(1280)
        page.log_in(link(service, user, url))
        page.wait_for("Overview")
        if path != "/":
            page.open(home + path)
        return page

    yield make
    for page, home in opened:
        assert [one for one in page.problems if "WebSocket" not in one and "ERR_CONN" not in one] == []
        assert [one for one in page.requests if not one.startswith((home, "data:"))] == []
        page.close()


@pytest.fixture
def page(page_of: Callable[..., Page]) -> Page:
    return page_of()


def submit(client: Client, name: str = "learns", code: str = TRAIN, **more: Any) -> int:
    spec = {"name": name, "command": [sys.executable, "-c", code], "resources": {"cpus": 0.1}, "workdir": None, **more}
    return client.submit(spec)["id"]


@contextmanager
def page_alone(service: str, log: Path, *options: str) -> Iterator[str]:
    """`up --only dashboard`; its address."""
    words = ["up", "--only", "dashboard", "--url", service, "--port", "0", "--data", f"{log}.data", *options]
    with open(log, "wb") as out:
        process = QuickProcess(words, environment(), out, out)
    try:
        wait_until(lambda: b"page: " in log.read_bytes(), 60, "the page is up")
        yield log.read_text().partition("page: ")[2].split()[0]
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
