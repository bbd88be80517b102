"""A job is moved by its button, between two real engines."""

from collections.abc import Iterator
from typing import Any

import pytest

from schedulearn.client import Client
from support.base_image import IMAGE
from support.browser import Page
from support.servers import with_servers
from support.service import PATIENCE, Service
from support.waiting import wait_until

from .conftest import submit
from .test_actions import closed, unchanged

# Saves at once, and whenever it is told to stop.
SAVES = """
import os, signal, sys, time
path = os.path.join(os.environ["SCHEDULEARN_CHECKPOINT_DIR"], "step")
save = lambda *_: open(path, "w").write("1")
signal.signal(signal.SIGTERM, lambda *_: (save(), sys.exit(0)))
save()
print("saved", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, daemons: Any) -> Iterator[Service]:
    with with_servers(tmp_path_factory.mktemp("service") / "data", daemons, ("one", "two")) as running:
        yield running


def test_a_job_moves_to_the_server_that_is_chosen(page: Page, client: Client) -> None:
    made = submit(client, "moves", "", command=["python3", "-c", SAVES], image=IMAGE)
    wait_until(lambda: "saved" in output(client, made), PATIENCE, "it can be moved")
    (here,) = {placement["node"] for placement in client.job(made)["placement"]}
    there = {"one": "two", "two": "one"}[here]
    page.open(f"{client.url}/jobs/{made}")
    with unchanged(client, made):
        page.click("Move")
        page.wait_for(f"Move job {made}")
        page.press("Escape")
        closed(page)
    page.click("Move")
    page.wait_for("local runs no containers")
    page.click_on(".dialog .q-select")
    offered = wait_until(lambda: page.text_of(".q-menu").split(), PATIENCE, "the list is open, and can be read")
    assert offered == [there], "what the service would refuse is not offered"
    page.click(there)
    wait_until(lambda: page.count(".q-menu") == 0, PATIENCE, "the list is gone")
    page.click("Move it")
    closed(page)
    page.wait_for(f"runs on {there}")
    assert [placement["node"] for placement in client.job(made)["placement"]] == [there]


def output(client: Client, job: int) -> str:
    return b"".join(client.logs(job)).decode() if client.job(job)["attempt"] else ""
