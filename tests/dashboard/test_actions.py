"""What can be done with a job, by its buttons: the right value, a wrong one, and a change of mind."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest

from schedulearn.client import Client
from support.browser import Page
from support.waiting import wait_until

from .conftest import submit

PATIENCE = 60.0


@pytest.fixture
def job(page: Page, client: Client) -> int:
    """One that runs, with its page open."""
    made = submit(client, "changed")
    page.open(f"{client.url}/jobs/{made}")
    wait_until(lambda: client.job(made)["state"] == "running", PATIENCE, "it runs")
    page.wait_for("running")
    return made


def stands(client: Client, job: int) -> tuple[Any, ...]:
    """All that a button may change."""
    seen = client.job(job)
    where = [placement["node"] for placement in seen["placement"]]
    return seen["state"], seen["priority"], seen["spec"].get("workers"), seen["cpus_limit"], where, seen["attempt"]


def closed(page: Page) -> None:
    wait_until(lambda: page.count(".dialog") == 0, PATIENCE, "the question is gone")


@contextmanager
def unchanged(client: Client, job: int) -> Iterator[None]:
    before = stands(client, job)
    yield
    assert stands(client, job) == before


WRONG = [
    ("Workers", "many", "'many' is not a number of workers"),
    ("Workers", "3..1", "'3..1' is not a range"),
    ("Workers", "0", "'0' is not a number of workers"),
    ("CPU limit", "lots", "'lots' is not a number"),
    ("CPU limit", "-1", "-1 is out of bounds"),
    ("CPU limit", "1000", "the job is guaranteed 0.1"),
    ("Priority", "", "a whole number, 0 to 100"),
]


def test_a_wrong_value_is_told_and_changes_nothing(page: Page, client: Client, job: int) -> None:
    with unchanged(client, job):
        for button, wrong, words in WRONG:
            page.click(button)
            page.fill(".dialog input", wrong)
            page.click("Change")
            page.wait_for(words)
            assert words in page.text_of(".dialog [role=alert]"), "where it was asked"
            page.click("Back")
            closed(page)


def test_the_range_of_workers_is_changed(page: Page, client: Client, job: int) -> None:
    page.click("Workers")
    page.wait_for("a range such as 2..6")
    page.fill(".dialog input", "1..2")
    page.click("Change")
    closed(page)
    assert client.job(job)["spec"]["workers"] == "1..2"
    page.wait_for("The range is set.")
    page.wait_for("workers: 1..2")  # its spec on the page
    page.click("Workers")
    wait_until(lambda: page.script("document.querySelector('.dialog input')?.value") == "1..2", PATIENCE, "what holds")


def test_the_cpu_limit_is_set_and_taken_away(page: Page, client: Client, job: int) -> None:
    page.click("CPU limit")
    page.fill(".dialog input", "0.5")
    page.press("Enter")
    wait_until(lambda: client.job(job)["cpus_limit"] == 0.5, PATIENCE, "it is set")
    page.wait_for("The limit is set.")
    page.wait_for("0.5 cores")  # among what the page tells about it
    closed(page)
    page.click("CPU limit")
    wait_until(lambda: page.script("document.querySelector('.dialog input')?.value") == "0.5", PATIENCE, "what holds")
    page.fill(".dialog input", " ")
    page.click("Change")
    wait_until(lambda: client.job(job)["cpus_limit"] is None, PATIENCE, "it is gone")


def test_without_another_server_there_is_nothing_to_choose(page: Page, client: Client, job: int) -> None:
    with unchanged(client, job):
        page.click("Move")
        page.wait_for("There is no other server to move the job to.")
        assert "Move it" not in page.text
        page.click("Back")
        closed(page)


def test_what_destroys_asks_first(page: Page, client: Client, job: int) -> None:
    ways: list[Callable[[], None]] = [lambda: page.press("Escape"), lambda: page.click("Back")]
    with unchanged(client, job):
        for button, leave in product(("Cancel", "Delete"), ways):
            page.click(button)
            page.wait_for(f"{button} job {job}?")
            leave()
            closed(page)
    assert page.address == f"/jobs/{job}"


def test_a_running_job_is_deleted_once_it_is_confirmed(page: Page, client: Client, job: int) -> None:
    page.click("Delete")
    page.wait_for("The job is stopped at once if it is running")
    assert client.job(job)["state"] == "running"
    page.click("Delete it")
    wait_until(lambda: page.address == "/jobs", PATIENCE, "back to the table")
    wait_until(lambda: job not in [one["id"] for one in client.jobs()["jobs"]], PATIENCE, "it is gone")
